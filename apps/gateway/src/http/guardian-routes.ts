import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { recordAct } from '../access/admin-log.ts';
import { visible } from '../access/principal.ts';
import { FIGURES, figuresKey, rateOf, readFigures } from '../calls/guardian-figures.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const reason = z.string().trim().min(1, 'say why').max(1_000);

/** Routes about how far the Guardian's opinions agree with people. */
export function addGuardianRoutes(app: Http, gateway: Gateway): void {
  /** Agreement of each model version with people, what it may do, and the demotions that wait for an operator. */
  app.get('/v1/guardian/agreement', { config: { access: ACCESS.read } }, async () => {
    const { least, fromComparisons } = gateway.policy.current.agreement;
    const found = await readFigures(gateway);
    return {
      shadow: gateway.policy.current.shadow,
      threshold: { least, fromComparisons },
      models: found.map(({ figures: { recent, disagreements: _, ...figures } }) => ({
        ...figures,
        recentlyCompared: recent.length,
        ...(recent.length === 0 ? {} : { recentRate: rateOf({ recent }) }),
      })),
    };
  });

  /** The latest calls on which a model and a person differed, newest first; masked text. */
  app.get('/v1/guardian/disagreements', { config: { access: ACCESS.read } }, async (request) => {
    const found = await readFigures(gateway);
    const principal = principalOf(request);
    const disagreements = found
      .flatMap(({ figures }) => figures.disagreements.map((one) => ({ ...one, version: figures.version })))
      .filter((one) => visible(principal, one, gateway.queues))
      .sort((a, b) => b.atMs - a.atMs)
      .slice(0, 200);
    return { disagreements };
  });

  /** Confirms a demotion to advising, or lets a model version decide again; for a reason. */
  app.post(
    '/v1/guardian/standing',
    {
      config: { access: ACCESS.operate },
      schema: {
        body: z.strictObject({
          version: z.string().min(1).max(600),
          standing: z.enum(['deciding', 'advising']),
          reason,
        }),
      },
    },
    async (request, reply) => {
      const { version, standing } = request.body;
      const key = figuresKey(version);
      const [found] = await readFigures(gateway, key);
      if (!found)
        return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no figures of this model version' });
      const { proposal: _, ...figures } = found.figures;
      // A model that decides again is judged by what it does from now on.
      const value = { ...figures, standing, ...(standing === 'deciding' ? { recent: [] } : {}) };
      const act = {
        what: `guardian ${standing}`,
        by: principalOf(request).name,
        detail: { version, reason: maskText(request.body.reason), rate: rateOf(figures) ?? null },
      };
      await recordAct(gateway.audit, act, gateway.now(), [
        { kind: FIGURES, key, value, expectedVersion: found.version },
      ]);
      return { version, standing };
    },
  );
}
