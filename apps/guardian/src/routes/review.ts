import type { GuardianServer } from '@countersign/protocol';
import { type Logger, traceId } from '@countersign/service-kit';
import type { Reviewer } from '../review/reviewer.ts';

/** `Review`: always answers with a reply. SECURITY: the log gets no text of the request and none of the model. */
export const reviewRoute =
  (reviewer: Reviewer, logger: Logger): GuardianServer['review'] =>
  async (call, callback) => {
    const left = new AbortController();
    call.on('cancelled', () => left.abort());
    const reply = await reviewer.review(call.request, left.signal);
    const { approve, category, provider, model } = reply;
    const [traceparent] = call.metadata.get('traceparent');
    const trace = typeof traceparent === 'string' ? traceId(traceparent) : undefined;
    logger.info({ call: call.request.callId, trace, approve, category, provider, model }, 'reviewed');
    callback(null, reply);
  };
