import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { type CallRecord, ERROR_CODES, runsCommand } from '@countersign/protocol';
import type { View } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import type { ChangeProblem, LayerChange } from './recorded-layers.ts';
import { ALWAYS_MS } from './saved-rules.ts';
import { fragmentText, reachText, type StoredRule } from './stored-rule.ts';

const MAX_FILES = 256;

/** What `always` would save for a call, as it is shown before the click; undefined when the call offers none. */
export function alwaysRule(gateway: Gateway, record: CallRecord, view: View, by: string): StoredRule | undefined {
  const offered = view.offers.always;
  const files = runsCommand(record.tool) ? view.preconditions : [];
  if (!offered || files.length > MAX_FILES) return undefined;
  const nowMs = gateway.now();
  const { sessionId: session, principal, agent, host, callId: from, queue } = record;
  return {
    id: makeId('rul', nowMs, randomBytes),
    layer: 'local',
    ...{ session, principal, agent, host, project: view.project, files, by, from },
    fragment: { allowRules: offered },
    ...(view.cwd === undefined ? {} : { cwd: view.cwd }),
    at_ms: nowMs,
    expires_ms: nowMs + ALWAYS_MS,
    state: gateway.governance.queue(queue).separationOfDuties === true ? 'proposed' : 'active',
  };
}

/** A rule as people see it before and after it is saved. */
export const ruleView = (rule: StoredRule) => ({
  id: rule.id,
  state: rule.state,
  says: fragmentText(rule.fragment),
  reach: reachText(rule),
  ...(rule.cwd === undefined ? {} : { folder: rule.cwd }),
  /** Programs and scripts that must be what they were; else the call is asked again. */
  files: rule.files.map(({ path }) => path),
  by: rule.by,
  from: rule.from,
  expiresMs: rule.expires_ms,
});

const detailOf = (rule: StoredRule, by: string) => {
  const { id, says, reach, from, expiresMs } = ruleView(rule);
  return { rule: id, says, reach, from, expires_ms: expiresMs, by };
};

/** The change that saves a rule: published at once, or proposed where a second person has to publish it. */
export const saving = (rule: StoredRule): LayerChange => ({
  type: rule.state === 'proposed' ? 'rule.proposed' : 'rule.published',
  detail: detailOf(rule, rule.by),
  rules: [rule],
});

const problem = (code: ChangeProblem['code'], message: string): Result<never, ChangeProblem> => err({ code, message });

/** Puts a proposed rule in force. Neither who proposed it nor the person for whom the agent acts may. */
export async function publishRule(
  gateway: Gateway,
  id: string,
  by: string,
): Promise<Result<StoredRule, ChangeProblem>> {
  await gateway.layers.refresh();
  const found = gateway.layers.rules().find((rule) => rule.id === id);
  if (!found) return problem(ERROR_CODES.notFound, 'no such rule');
  if (found.state !== 'proposed') return problem(ERROR_CODES.alreadyDecided, `the rule is ${found.state}`);
  if (by === found.by || by === found.principal)
    return problem(ERROR_CODES.forbidden, 'somebody else has to publish it');
  const rule: StoredRule = { ...found, state: 'active', published_by: by };
  const changed = await gateway.layers.change({ type: 'rule.published', detail: detailOf(rule, by), rules: [rule] });
  if (!changed.ok) return changed;
  gateway.broker.bus.tell('layers');
  return ok(rule);
}

/** Ends a rule, proposed or in force. Ending it twice is no error. */
export async function revokeRule(gateway: Gateway, id: string, by: string): Promise<Result<StoredRule, ChangeProblem>> {
  await gateway.layers.refresh();
  const found = gateway.layers.rules().find((rule) => rule.id === id);
  if (!found) return problem(ERROR_CODES.notFound, 'no such rule');
  if (found.state === 'revoked') return ok(found);
  const rule: StoredRule = { ...found, state: 'revoked', ended_by: by };
  const changed = await gateway.layers.change({ type: 'rule.revoked', detail: detailOf(rule, by), rules: [rule] });
  if (!changed.ok) return changed;
  gateway.broker.bus.tell('layers');
  return ok(rule);
}
