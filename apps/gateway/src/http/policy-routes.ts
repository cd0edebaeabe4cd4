import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { redecideUnsettled } from '../calls/redecide.ts';
import type { Gateway } from '../context.ts';
import { policyDigest } from '../policy/policy-digest.ts';
import { readPolicyText } from '../policy/policy-file.ts';
import { presentPolicy, publishPolicy } from '../policy/publish-policy.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const BODY_LIMIT = 300_000;
/** Longest wait of a publication for the calls that are decided again. */
const DECIDED_MS = 20_000;

/** Routes of the organisation's policy. */
export function addPolicyRoutes(app: Http, gateway: Gateway): void {
  /** The managed layer in force, its version and where it came from. */
  app.get('/v1/policy', { config: { access: ACCESS.read } }, async () => {
    const { published, version } = await presentPolicy(gateway);
    const { permissions, ceilings, security, source, by } = published;
    const config = { permissions, ceilings, security };
    return { version: Number(version), digest: policyDigest(config), source, by, policy: config };
  });

  /**
   * Publishes a policy text (JSON or YAML). Every unstarted call is then decided again, and those that became stricter are
   * withdrawn: with few of them before the answer, with thousands soon after it. Meanwhile the record refuses each answer
   * that stands on an older version.
   */
  app.put(
    '/v1/policy',
    {
      bodyLimit: BODY_LIMIT,
      config: { access: ACCESS.administer },
      schema: {
        body: z.strictObject({ text: z.string().min(1), name: z.string().min(1).max(200).default('policy.yaml') }),
      },
    },
    async (request, reply) => {
      try {
        const config = readPolicyText(request.body.text, request.body.name);
        const published = await publishPolicy(gateway, config, { source: 'api', by: principalOf(request).name });
        if (!published.ok) return sendProblem(reply, published.error);
        await Promise.race([redecideUnsettled(gateway), delay(DECIDED_MS, undefined, { ref: false })]);
        return { version: Number(published.value), digest: policyDigest(config) };
      } catch (error) {
        if (error instanceof FaultError && error.code === ERROR_CODES.policyRefused)
          return sendProblem(reply, { code: ERROR_CODES.policyRefused, message: error.publicMessage });
        throw error;
      }
    },
  );
}
