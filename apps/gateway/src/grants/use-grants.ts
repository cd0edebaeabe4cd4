import type { Decision, Grant } from '@countersign/policy';
import { heldTo } from '../calls/narrow-view.ts';
import type { View } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { callEntry } from '../record/entries.ts';
import type { LiveGrant } from './grant.ts';

/** The live grants of a session, as the engine takes them. */
export const grantsOf = (gateway: Gateway, session: string): Grant[] =>
  gateway.grants.ofSession(session).flatMap(({ id, covers }) =>
    covers.map(({ tool, action, scope, rule }) => ({
      id,
      tool,
      action,
      scope,
      ...(rule === undefined ? {} : { rule }),
    })),
  );

const usedBy = (gateway: Gateway, session: string, decision: Decision): LiveGrant[] =>
  gateway.grants.ofSession(session).filter(({ id }) => decision.usedGrants?.includes(id));

/** The view of a call that grants allow: what was narrowed when they were given stays narrow. */
export const underGrants = (gateway: Gateway, session: string, decision: Decision, view: View): View =>
  usedBy(gateway, session, decision).reduce((held, { narrow }) => heldTo(held, narrow), view);

/** What an append says of the grants that its decision used; the record refuses it when one of them has ended. */
export function useOfGrants(gateway: Gateway, callId: string, decision: Decision, nowMs: number) {
  const used = decision.usedGrants ?? [];
  if (decision.effect !== 'allow' || used.length === 0) return undefined;
  const [first = ''] = used;
  const entry = {
    ...callEntry({ callId, type: 'grant.used', nowMs, body: { detail: { grants: used } } }),
    stream: first,
  };
  return {
    entry,
    facts: { grants: [...used], expected: [{ kind: 'grants', key: 'epoch', version: gateway.grants.epoch }] },
  };
}
