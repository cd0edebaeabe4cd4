import { randomBytes } from 'node:crypto';
import { isCallState, isTerminal, makeId } from '@countersign/kernel';
import {
  CallCancel,
  type CallEvent,
  CallPayload,
  CallSubmit,
  EnvelopeKind,
  OutputText,
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

/** How a call ended, or that its command goes on in the background (state `backgrounded`). `result` is present only when something ran and its sealed result opened. */
export type CallOutcome = {
  readonly callId: string;
  readonly state: string;
  readonly decidedBy: string;
  readonly reason: string;
  readonly code: string;
  readonly result?: ToolResult;
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
  const { callId, state, decidedBy, reason, code } = event;
  const base = { callId, state, decidedBy, reason, code };
  if (event.sealedResult.length === 0) return base;
  return { ...base, result: ToolResult.decode(await link.identity.open(event.sealedResult, callId)) };
}

/** Seals and signs one call. Every resend is this same message. */
async function submission(link: Link, callId: string, request: CallRequest): Promise<Uint8Array> {
  const args = encode(JSON.stringify(request.args));
  const payload = CallPayload.encode({ salt: randomBytes(32), arguments: args }).finish();
  const submit = CallSubmit.fromPartial({
    callId,
    sessionId: request.session,
    tool: request.tool,
    sealedPayload: await sealTo(link.controlSealKey, payload, callId),
    deadlineMs: BigInt(request.deadlineMs ?? 0),
    executor: 'runner',
    turnId: request.turn ?? '',
    tighten: request.tighten ?? '',
    tightenSource: request.tighten ? link.identity.id : '',
    traceparent: request.traceparent ?? '',
    followOutput: request.onOutput !== undefined,
  });
  return link.sign(EnvelopeKind.CALL, link.callSubject, CallSubmit.encode(submit).finish());
}

async function openOutput(link: Link, event: CallEvent): Promise<LiveOutput> {
  const text = OutputText.decode(await link.identity.open(event.sealedOutput, event.callId));
  const { stdout, stderr, droppedBytes } = text;
  return { number: Number(event.outputNumber), stdout, stderr, droppedBytes: Number(droppedBytes) };
}

/** True when `result` resolves with this state. */
const isSettled = (state: string, { untilEnd }: CallRequest): boolean =>
  (state === 'backgrounded' && untilEnd !== true) || (isCallState(state) && isTerminal(state));

/** Submits a call and follows it to its end. Resolves after the first sending. */
export async function submitCall(link: Link, request: CallRequest): Promise<SubmittedCall> {
  const callId = request.callId ?? makeId('call', Date.now(), randomBytes);
  const message = await submission(link, callId, request);
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
      sending.answered();
      request.onEvent?.(event);
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
