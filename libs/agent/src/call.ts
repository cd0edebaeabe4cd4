import { randomBytes } from 'node:crypto';
import { isCallState, isTerminal, makeId } from '@countersign/kernel';
import {
  CallCancel,
  type CallEvent,
  CallPayload,
  CallSubmit,
  EnvelopeKind,
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
  /** Only tightens. */
  readonly tighten?: 'ask' | 'deny';
  readonly traceparent?: string;
  /** A chosen id, to repeat a call whose answer was lost. */
  readonly callId?: string;
  /** Told of every verified event of the call. */
  readonly onEvent?: (event: CallEvent) => void;
};

/** How a call ended. `result` is present only when something ran and its sealed result opened. */
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
    tighten: request.tighten ?? '',
    tightenSource: request.tighten ? link.identity.id : '',
    traceparent: request.traceparent ?? '',
  });
  return link.sign(EnvelopeKind.CALL, link.callSubject, CallSubmit.encode(submit).finish());
}

/** Submits a call and follows it to its end. Resolves after the first sending. */
export async function submitCall(link: Link, request: CallRequest): Promise<SubmittedCall> {
  const callId = request.callId ?? makeId('call', Date.now(), randomBytes);
  const message = await submission(link, callId, request);
  const { promise, resolve, reject } = Promise.withResolvers<CallOutcome>();
  let cancelMessage: Uint8Array | undefined;
  const unfollow = link.follow({
    matches: (event) => event.type === 'call.state' && event.callId === callId && event.sessionId === request.session,
    onEvent: (event) => {
      sending.answered();
      request.onEvent?.(event);
      if (isCallState(event.state) && isTerminal(event.state)) outcomeOf(link, event).then(resolve, reject);
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
  const cancel = (reason = 'cancelled by the agent') => {
    cancelMessage ??= link.sign(
      EnvelopeKind.CANCEL,
      link.cancelSubject,
      CallCancel.encode({ callId, reason }).finish(),
    );
    link.publish(link.cancelSubject, cancelMessage);
  };
  return { callId, result, cancel };
}
