import { type ReviewReply, ReviewRequest } from '@countersign/protocol';
import { Metadata } from '@grpc/grpc-js';
import type { Gateway } from '../context.ts';
import type { Session } from '../record/sessions.ts';
import type { Evaluation } from './evaluate.ts';
import type { ParsedCall } from './parse-call.ts';

const DEADLINE_MS = 35_000;

export type Verdict = { readonly approve: boolean; readonly name: string; readonly reason: string };

/** Asks the Guardian. SECURITY: anything but an approval of category `reviewed` with a reason is a denial. */
export async function reviewCall(
  gateway: Gateway,
  session: Session,
  call: ParsedCall,
  evaluation: Evaluation,
): Promise<Verdict> {
  const request = ReviewRequest.fromPartial({
    callId: call.submit.callId,
    sessionId: session.id,
    provider: session.model.provider,
    model: session.model.name,
    requestText: session.request_text,
    project: session.project,
    tool: call.tool,
    action: evaluation.action,
    detail: JSON.stringify(call.args),
    resource: evaluation.view.realPath ?? '',
    scope: session.project,
  });
  const reply = await new Promise<ReviewReply | undefined>((resolve) => {
    gateway.guardian.review(request, new Metadata(), { deadline: Date.now() + DEADLINE_MS }, (error, answer) =>
      resolve(error ? undefined : answer),
    );
  });
  if (!reply) return { approve: false, name: 'guardian', reason: 'guardian is unavailable; the call was not judged' };
  const approve = reply.approve === true && reply.category === 'reviewed' && reply.reason !== '';
  const name = reply.model === '' ? 'guardian' : `${reply.provider}/${reply.model}`;
  return { approve, name, reason: `guardian: ${reply.category || 'no category'}: ${reply.reason || 'no reason'}` };
}
