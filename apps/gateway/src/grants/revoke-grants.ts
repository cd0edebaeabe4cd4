import type { Gateway } from '../context.ts';
import { json } from '../record/entries.ts';
import type { LiveGrant } from './grant.ts';

/**
 * Ends grants, in the record first. INVARIANT: once this resolves no gateway can use them, whatever it still holds in memory,
 * because the record refuses them. Resolves to those that it ended; one that had ended already is left out.
 */
export async function endGrants(
  gateway: Gateway,
  grants: readonly LiveGrant[],
  end: { type: 'revoked' | 'expired'; by: string; reason: string },
): Promise<LiveGrant[]> {
  const ended: LiveGrant[] = [];
  for (const grant of grants) {
    const reply = await gateway.audit.append({
      entries: [
        {
          id: `ent_${grant.id}_grant.ended_1`,
          type: `grant.${end.type}`,
          stream: grant.id,
          emittedMs: BigInt(gateway.now()),
          body: json({ session: grant.session, detail: { grant: grant.id, by: end.by, reason: end.reason } }),
        },
      ],
    });
    if (!reply.refusal && !reply.replayed) ended.push(grant);
    await gateway.grants.remove(grant);
  }
  return ended;
}
