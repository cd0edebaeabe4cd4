import { err, FaultError, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import { z } from 'zod';
import type { Gateway } from '../context.ts';
import { json } from '../record/entries.ts';
import type { ManagedPolicy, PolicyConfig } from './policy-desk.ts';
import { policyDigest } from './policy-digest.ts';

const MAX_BYTES = 250_000;

const documentSchema = z.object({
  permissions: z.record(z.string(), z.unknown()),
  ceilings: z.record(z.string(), z.unknown()),
  security: z.record(z.string(), z.unknown()),
  source: z.enum(['config', 'file', 'api']),
  /** Digest of what configuration or file held when it was last taken over. */
  configured: z.string(),
  by: z.string(),
});
export type PublishedPolicy = z.infer<typeof documentSchema>;

type Refusal = { readonly code: ErrorCode; readonly message: string };
type Source = { readonly source: PublishedPolicy['source']; readonly by: string };

async function readPublished(gateway: Gateway): Promise<{ published: PublishedPolicy; version: bigint } | undefined> {
  const [document] = await gateway.audit.listDocuments('policy', 'managed');
  if (!document) return undefined;
  const published = documentSchema.parse(JSON.parse(new TextDecoder().decode(document.value)));
  return { published, version: document.version };
}

/** Takes over the newest version of the record; true when it differs from the one in force. */
export async function refreshPolicy(gateway: Gateway): Promise<boolean> {
  const found = await readPublished(gateway);
  if (!found || found.version <= gateway.policy.version) return false;
  const { permissions, ceilings, security } = found.published;
  gateway.policy.take(gateway.policy.check({ permissions, ceilings, security }), found.version);
  return true;
}

/** The policy in force with where it came from. */
export async function presentPolicy(gateway: Gateway): Promise<{ published: PublishedPolicy; version: bigint }> {
  const found = await readPublished(gateway);
  if (!found) throw new FaultError('the record has no policy', { code: ERROR_CODES.internal });
  return found;
}

function checked(gateway: Gateway, config: PolicyConfig): Result<ManagedPolicy, Refusal> {
  if (json(config).length > MAX_BYTES)
    return err({ code: ERROR_CODES.policyRefused, message: `a policy has at most ${MAX_BYTES} bytes` });
  try {
    return ok(gateway.policy.check(config));
  } catch (error) {
    const message = error instanceof FaultError ? error.publicMessage : 'policy cannot be read';
    return err({ code: ERROR_CODES.policyRefused, message });
  }
}

/**
 * Checks a policy and records it as the next version; from then on no decision on an older one is recorded. A bad rule refuses
 * it whole, and the last good one stays. Resolves to the version.
 */
export async function publishPolicy(
  gateway: Gateway,
  config: PolicyConfig,
  { source, by }: Source,
): Promise<Result<bigint, Refusal>> {
  const policy = checked(gateway, config);
  if (!policy.ok) return policy;
  const before = await readPublished(gateway);
  const digest = policyDigest(config);
  const version = (before?.version ?? 0n) + 1n;
  const configured = source === 'api' ? (before?.published.configured ?? '') : digest;
  const reply = await gateway.audit.append({
    entries: [
      {
        id: `ent_policy_managed_${version}`,
        type: before ? 'policy.changed' : 'policy.loaded',
        stream: 'policy',
        emittedMs: BigInt(gateway.now()),
        body: json({ detail: { version: Number(version), digest, source, by } }),
      },
    ],
    documents: [
      {
        kind: 'policy',
        key: 'managed',
        value: json({ ...config, source, configured, by }),
        expectedVersion: version - 1n,
      },
    ],
  });
  if (reply.refusal)
    return err({ code: ERROR_CODES.changedMeanwhile, message: 'another policy was published; look at it' });
  await refreshPolicy(gateway);
  gateway.broker.bus.tell('policy');
  return ok(version);
}

/**
 * Brings configuration and record together at the start: what was published stays in force unless the configured policy has
 * changed since it was last taken over.
 */
export async function adoptConfigured(
  gateway: Gateway,
  config: PolicyConfig,
  source: 'config' | 'file',
): Promise<void> {
  for (let tries = 0; tries < 3; tries += 1) {
    const before = await readPublished(gateway);
    if (before?.published.configured === policyDigest(config)) break;
    const published = await publishPolicy(gateway, config, { source, by: source });
    if (published.ok) break;
    if (published.error.code !== ERROR_CODES.changedMeanwhile)
      throw new FaultError(published.error.message, { code: published.error.code });
  }
  await refreshPolicy(gateway);
}
