import { z } from 'zod';
import { visible } from '../access/principal.ts';
import { scriptsOfCall } from '../calls/scripts-of-call.ts';
import { readView } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { cancelCallsOf } from '../sessions/close-session.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { callIdSchema, NO_CALL, visibleCall } from './visible-call.ts';

/** Routes of a reviewer beside the answer itself. */
export function addReviewRoutes(app: Http, gateway: Gateway): void {
  /**
   * Text of the scripts that a command starts, as its host has them now; masked. `problem` instead of a text: `changed` since
   * the call was submitted, `large`, or `unreadable` (the host is away, or a read rule hides it).
   */
  app.get(
    '/v1/calls/:id/scripts',
    { config: { access: ACCESS.read }, schema: { params: callIdSchema } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const view = readView(record.view);
      return { scripts: view ? await scriptsOfCall(gateway, record, view) : [] };
    },
  );

  /**
   * Ends the turn that a call belongs to: its other calls that the caller may see are cancelled while they wait and stopped
   * while they run. A call that names no turn stands for its whole session. The answer counts them.
   */
  app.post(
    '/v1/calls/:id/stop-turn',
    {
      config: { access: ACCESS.decide },
      schema: { params: callIdSchema, body: z.strictObject({ reason: z.string().max(2_000).default('') }) },
    },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const principal = principalOf(request);
      const turn = readView(record.view)?.turn;
      const by = { name: principal.name, reason: maskText(request.body.reason) || 'the turn was stopped' };
      const stopped = await cancelCallsOf(
        gateway,
        record.sessionId,
        by,
        (call) =>
          call.callId !== record.callId &&
          visible(principal, call, gateway.queues) &&
          (turn === undefined || readView(call.view)?.turn === turn),
      );
      return { stopped };
    },
  );
}
