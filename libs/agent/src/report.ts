import { isCallState, isTerminal } from '@countersign/kernel';
import { CallReport, EnvelopeKind, sealTo, ToolResult } from '@countersign/protocol';
import type { Link } from './link.ts';
import { resendUntilStopped } from './resend.ts';

/** How a call ended that its agent carried out itself. */
export type Report = {
  readonly callId: string;
  readonly session: string;
  readonly state: 'done' | 'failed';
  readonly reason?: string;
  /** Kept sealed with the call. */
  readonly result?: Parameters<typeof ToolResult.fromPartial>[0];
};

/**
 * Reports the end of a handed-over call until the record has it. Resolves with the recorded state, which is `unknown` when
 * the report came too late. Rejects when the connection is closed first.
 */
export async function reportCall(link: Link, report: Report): Promise<string> {
  const { callId, session, state, reason = '', result } = report;
  const sealedResult = result
    ? await sealTo(link.controlSealKey, ToolResult.encode(ToolResult.fromPartial(result)).finish(), callId)
    : new Uint8Array();
  const body = CallReport.encode({ callId, state, reason, sealedResult }).finish();
  const message = link.sign(EnvelopeKind.REPORT, link.callSubject, body);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const unfollow = link.follow({
    matches: (event) => event.type === 'call.state' && event.callId === callId && event.sessionId === session,
    onEvent: (event) => {
      if (isCallState(event.state) && isTerminal(event.state)) resolve(event.state);
    },
    onClosed: reject,
  });
  const sending = resendUntilStopped(() => link.publish(link.callSubject, message));
  return promise.finally(() => {
    sending.stop();
    unfollow();
  });
}
