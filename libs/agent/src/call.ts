import { randomBytes } from 'node:crypto';
import { isCallState, isTerminal, makeId } from '@countersign/kernel';
import {
  CallCancel,
  type CallEvent,
  CallPayload,
  CallSubmit,
  callDigest,
  canonicalEnvelope,
  EnvelopeKind,
  normaliseTool,
  OutputText,
  type Receipt,
  sealTo,
  ToolResult,
} from '@countersign/protocol';
import type { Link } from './link.ts';
import { resendUntilStopped } from './resend.ts';

/** What an agent asks for. */
export type CallRequest = {
  readonly tool: string;
  /** Serialised once; these bytes are what is decided, shown and run. */
  readonly args: unknown;
  readonly session: string;
  /** Latest start, milliseconds since the Unix epoch; absent takes the default. */
  readonly deadlineMs?: number;
  /** Turn that the call belongs to. */
  readonly turn?: string;
  /** Only tightens. */
  readonly tighten?: 'ask' | 'deny';
  readonly traceparent?: string;
  /**
   * `agent`: this program carries the call out itself once it was handed over, and reports its end. A repetition after a crash
   * is never handed over again, since it may have run; it ends as `unknown` when its time for a report is over.
   */
  readonly executor?: 'runner' | 'agent';
  /** A chosen id, to repeat a call whose answer was lost. */
  readonly callId?: string;
  /** Waits for the end also when the command goes on in the background. */
  readonly untilEnd?: boolean;
  /** Told of every verified event of the call. */
  readonly onEvent?: (event: CallEvent) => void;
  /** Told of the output of a command while it runs; it may have gaps, the result has not. */
  readonly onOutput?: (output: LiveOutput) => void;
};

/** A piece of output of a running command. */
export type LiveOutput = {
  /** Rises by one from 1; a gap means that pieces were lost. */
  readonly number: number;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly droppedBytes: number;
};

/** How a call ended, or that its command goes on in the background (state `backgrounded`), or that it is this agent's to carry out (state `handed_over`). `result` is present only when something ran and its sealed result opened. */
export type CallOutcome = {
  readonly callId: string;
  readonly state: string;
  readonly decidedBy: string;
  readonly reason: string;
  readonly code: string;
  readonly result?: ToolResult;
  /** With the state `handed_over`: audit's verified proof that exactly this call was approved. */
  readonly receipt?: Receipt;
};

/** A submitted call. */
export type SubmittedCall = {
  readonly callId: string;
  /** Settles with the terminal state; rejects when the connection is closed first. */
  readonly result: Promise<CallOutcome>;
  /** Asks to withdraw the call, or to stop it when it runs. The terminal state says what came of it. */
  readonly cancel: (reason?: string) => void;
  /** Asks to let the running command go on in the background; `result` then resolves with the state `backgrounded`. */
  readonly background: () => void;
};

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

async function outcomeOf(link: Link, event: CallEvent): Promise<CallOutcome> {
  const { callId, state, decidedBy, reason, code, receipt } = event;
  const base = { callId, state, decidedBy, reason, code, ...(receipt ? { receipt } : {}) };
  if (event.sealedResult.length === 0) return base;
  return { ...base, result: ToolResult.decode(await link.identity.open(event.sealedResult, callId)) };
}

/** Seals and signs one call, with the digest that a receipt of it binds. Every resend is this same message. */
async function submission(link: Link, callId: string, request: CallRequest) {
  const args = encode(JSON.stringify(request.args));
  const salt = randomBytes(32);
  const payload = CallPayload.encode({ salt, arguments: args }).finish();
  const { executor = 'runner', tool, session: sessionId, deadlineMs = 0 } = request;
  const submit = CallSubmit.fromPartial({
    callId,
    sessionId,
    tool,
    sealedPayload: await sealTo(link.controlSealKey, payload, callId),
    deadlineMs: BigInt(deadlineMs),
    executor,
    turnId: request.turn ?? '',
    tighten: request.tighten ?? '',
    tightenSource: request.tighten ? link.identity.id : '',
    traceparent: request.traceparent ?? '',
    followOutput: request.onOutput !== undefined,
  });
  const message = link.sign(EnvelopeKind.CALL, link.callSubject, CallSubmit.encode(submit).finish());
  const named = { agent: link.identity.id, callId, sessionId, tool: normaliseTool(tool) ?? tool, executor, deadlineMs };
  return { message, digest: callDigest(salt, args, canonicalEnvelope(named)) };
}

async function openOutput(link: Link, event: CallEvent): Promise<LiveOutput> {
  const text = OutputText.decode(await link.identity.open(event.sealedOutput, event.callId));
  const { stdout, stderr, droppedBytes } = text;
  return { number: Number(event.outputNumber), stdout, stderr, droppedBytes: Number(droppedBytes) };
}

/** True when `result` resolves with this state. */
const isSettled = (state: string, { untilEnd }: CallRequest): boolean =>
  state === 'handed_over' ||
  (state === 'backgrounded' && untilEnd !== true) ||
  (isCallState(state) && isTerminal(state));

/** SECURITY: an agent carries out only what the audit service signed for exactly this call, whatever a gateway says. */
const isProven = (link: Link, { state, callId, receipt }: CallEvent, digest: Uint8Array): boolean =>
  state !== 'handed_over' ||
  (receipt !== undefined &&
    receipt.callId === callId &&
    receipt.host === '' &&
    Buffer.compare(receipt.callDigest, digest) === 0 &&
    link.isProof(receipt));

/** Submits a call and follows it to its end. Resolves after the first sending. */
export async function submitCall(link: Link, request: CallRequest): Promise<SubmittedCall> {
  const callId = request.callId ?? makeId('call', Date.now(), randomBytes);
  const { message, digest } = await submission(link, callId, request);
  const { promise, resolve, reject } = Promise.withResolvers<CallOutcome>();
  let cancelMessage: Uint8Array | undefined;
  const unfollow = link.follow({
    matches: ({ type, callId: about, sessionId }) =>
      (type === 'call.state' || type === 'call.output') && about === callId && sessionId === request.session,
    onEvent: (event) => {
      if (event.type === 'call.output') {
        void openOutput(link, event).then(request.onOutput, () => undefined);
        return;
      }
      if (!isProven(link, event, digest)) return;
      sending.answered();
      request.onEvent?.(event);
      // Approved while nobody listened: come for it.
      if (event.state === 'approved' && request.executor === 'agent') link.publish(link.callSubject, message);
      if (isSettled(event.state, request)) outcomeOf(link, event).then(resolve, reject);
    },
    onClosed: reject,
  });
  const sending = resendUntilStopped(() => {
    link.publish(link.callSubject, message);
    if (cancelMessage) link.publish(link.cancelSubject, cancelMessage);
  });
  const result = promise.finally(() => {
    sending.stop();
    unfollow();
  });
  result.catch(() => undefined);
  const background = () =>
    link.publish(
      link.cancelSubject,
      link.sign(
        EnvelopeKind.CANCEL,
        link.cancelSubject,
        CallCancel.encode({ callId, reason: '', background: true }).finish(),
      ),
    );
  const cancel = (reason = 'cancelled by the agent') => {
    cancelMessage ??= link.sign(
      EnvelopeKind.CANCEL,
      link.cancelSubject,
      CallCancel.encode({ callId, reason, background: false }).finish(),
    );
    link.publish(link.cancelSubject, cancelMessage);
  };
  return { callId, result, cancel, background };
}
