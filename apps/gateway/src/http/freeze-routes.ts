import type { FreezeState } from '@countersign/protocol';
import { z } from 'zod';
import type { Gateway } from '../context.ts';
import { changeFreeze, refreshFreeze } from '../freeze/change-freeze.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const scope = z.string().regex(/^(all|(host|agent|session):[\w-]{1,64})$/, 'use all, host:ID, agent:ID or session:ID');
const reason = z.string().trim().min(1, 'say why').max(1_000);

const stateView = (state: FreezeState) => ({
  epoch: Number(state.epoch),
  freezes: state.freezes.map((freeze) => ({
    scope: freeze.scope,
    reason: freeze.reason,
    by: freeze.subject,
    stopRunning: freeze.stopRunning,
    setMs: Number(freeze.setMs),
  })),
  confirmed: state.confirmations
    .filter(({ epoch }) => epoch >= state.epoch)
    .map(({ host, running, confirmedMs }) => ({ host, running, confirmedMs: Number(confirmedMs) })),
  unconfirmed: state.unconfirmedHosts,
});

/** Routes of the kill switch. */
export function addFreezeRoutes(app: Http, gateway: Gateway): void {
  /** What is frozen, which hosts keep to it, and which have not said so. */
  app.get('/v1/freeze', { config: { access: ACCESS.read } }, async () => stateView(await refreshFreeze(gateway)));

  /** Freezes a scope; `stopRunning` also stops what runs in it. Answered while the gateway's clock is off, too. */
  app.post(
    '/v1/freeze',
    {
      config: { access: { ...ACCESS.operate, anyClock: true } },
      schema: { body: z.strictObject({ scope, reason, stopRunning: z.boolean().default(false) }) },
    },
    async (request, reply) => {
      const changed = await changeFreeze(gateway, principalOf(request).name, { kind: 'set', ...request.body });
      return changed.ok ? stateView(changed.value) : sendProblem(reply, changed.error);
    },
  );

  /** Lifts the freeze of exactly this scope, for a reason. */
  app.delete(
    '/v1/freeze',
    { config: { access: ACCESS.operate }, schema: { querystring: z.strictObject({ scope, reason }) } },
    async (request, reply) => {
      const wish = { kind: 'clear', stopRunning: false, ...request.query } as const;
      const changed = await changeFreeze(gateway, principalOf(request).name, wish);
      return changed.ok ? stateView(changed.value) : sendProblem(reply, changed.error);
    },
  );
}
