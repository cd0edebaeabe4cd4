import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { recordAct } from '../access/admin-log.ts';
import { type Notifier, testNoticeId } from '../notify/notifier.ts';
import type { AuditLog } from '../record/audit-log.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const config = { access: ACCESS.operate };

/** Routes of the channels that tell people outside the desk. Notices hold text of every queue, so only operators see them. */
export function addNotificationRoutes(
  app: Http,
  { notifier, desk, now, audit }: { notifier: Notifier; desk: URL; now: () => number; audit: AuditLog },
): void {
  /** Channels by id and kind; neither addresses nor secrets. */
  app.get('/v1/notifications/channels', { config }, async () => ({ channels: notifier.channels }));

  /** Notices that were given up, oldest first, with the reason. */
  app.get(
    '/v1/notifications/dead',
    { config, schema: { querystring: z.object({ limit: z.coerce.number().int().min(1).max(500).default(100) }) } },
    async (request) => ({ notices: await notifier.dead(request.query.limit) }),
  );

  /** Queues a given-up notice again. 404 when there is none or its channel is gone. */
  app.post(
    '/v1/notifications/dead/:seq/replay',
    { config, schema: { params: z.object({ seq: z.coerce.number().int().min(1) }) } },
    async (request, reply) => {
      const by = principalOf(request).name;
      const { seq } = request.params;
      await recordAct(audit, { what: 'notification.replayed', by, detail: { seq } }, now());
      if (await notifier.replay(seq)) return { queued: true };
      return sendProblem(reply, {
        code: ERROR_CODES.notFound,
        message: 'no such notice, or its channel is not configured any more',
      });
    },
  );

  /** Sends a test notice through one channel. */
  app.post(
    '/v1/notifications/channels/:id/test',
    { config, schema: { params: z.object({ id: z.string().regex(/^[\w-]{1,64}$/) }) } },
    async (request, reply) => {
      const principal = principalOf(request);
      const id = testNoticeId();
      const data = {
        call: '',
        state: '',
        agent: '',
        host: '',
        session: '',
        tool: '',
        action: '',
        summary: `Sent by ${principal.name}`,
        deadline: '',
        decided_by: '',
        reason: '',
        url: desk.href,
      };
      const act = { what: 'notification.tested', by: principal.name, detail: { channel: request.params.id } };
      await recordAct(audit, act, now());
      const timestamp = new Date(now()).toISOString();
      if (await notifier.test(request.params.id, { id, type: 'test', timestamp, data })) return { id };
      return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such channel, or it cannot queue now' });
    },
  );
}
