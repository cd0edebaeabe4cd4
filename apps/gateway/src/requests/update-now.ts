import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { json } from '../record/entries.ts';
import { type AnswerProblem, afterEffects, effectsOf } from './answer-request.ts';
import { planUpdates } from './plan-updates.ts';
import type { Update } from './updates.ts';

/** An operator's own updates of a session: in force at once, for later calls, inside the same bounds as those of agents. */
export async function updateNow(
  gateway: Gateway,
  session: string,
  updates: readonly Update[],
  { by, dry }: { readonly by: string; readonly dry: boolean },
): Promise<Result<{ session: string; says: readonly string[] }, AnswerProblem>> {
  const chain = await gateway.sessions.chain(session);
  if (chain?.bounded.state !== 'open') return err({ code: ERROR_CODES.notFound, message: 'no such open session' });
  if (by === chain.session.principal)
    return err({ code: ERROR_CODES.forbidden, message: 'nobody widens what acts for himself; ask somebody else' });
  const nowMs = gateway.now();
  const id = makeId('ent', nowMs, randomBytes);
  const plan = await planUpdates(gateway, chain, updates, { by, from: id });
  if (!plan.ok) return plan;
  const { says } = plan.value;
  if (dry) return ok({ session, says });
  const together = effectsOf(gateway, chain, plan.value, { name: by, request: id });
  const detail = { what: 'permission.updated', by, session, says: says.map(maskText) };
  const entry = { id, type: 'admin.changed', stream: 'admin', emittedMs: BigInt(nowMs), body: json({ detail }) };
  const reply = await gateway.audit.append({
    entries: [entry, ...(together.entries ?? [])],
    documents: [...(together.documents ?? [])],
    expected: [...(together.expected ?? [])],
  });
  await afterEffects(gateway);
  if (reply.refusal)
    return err({
      code: ERROR_CODES.changedMeanwhile,
      message: 'session, rules or policy changed at the same moment; look again',
    });
  return ok({ session, says });
}
