import { z } from 'zod';
import { redecideUnsettled } from '../calls/redecide.ts';
import type { Gateway } from '../context.ts';
import { publishRule, revokeRule, ruleView } from '../layers/save-rule.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const params = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });

/** Routes of rules that people saved with `always`. */
export function addRuleRoutes(app: Http, gateway: Gateway): void {
  /** Saved rules, also proposed and revoked ones; newest first. */
  app.get('/v1/rules', { config: { access: ACCESS.exportAll } }, async () => {
    await gateway.layers.refresh();
    return { rules: gateway.layers.rules().map(ruleView) };
  });

  /** Puts a proposed rule in force; somebody else than who proposed it. */
  app.post(
    '/v1/rules/:id/publish',
    { config: { access: ACCESS.enrol }, schema: { params } },
    async (request, reply) => {
      const published = await publishRule(gateway, request.params.id, principalOf(request).name);
      return published.ok ? ruleView(published.value) : sendProblem(reply, published.error);
    },
  );

  /** Ends a rule; calls that have not started and became stricter are withdrawn. */
  app.delete('/v1/rules/:id', { config: { access: ACCESS.operate }, schema: { params } }, async (request, reply) => {
    const ended = await revokeRule(gateway, request.params.id, principalOf(request).name);
    if (!ended.ok) return sendProblem(reply, ended.error);
    void redecideUnsettled(gateway);
    return ruleView(ended.value);
  });
}
