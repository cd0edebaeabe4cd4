import { isCallState, isTerminal, isTransitionAllowed } from '@countersign/kernel';
import { type CallRecord, EnvelopeKind, type FileChange, Outcome, openEnvelope } from '@countersign/protocol';
import { sendControl } from '../broker/control.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { callEntry } from '../record/entries.ts';
import { isKeyOf } from '../record/members.ts';
import { announce, announceRecord } from './announce.ts';

/** Entry type of each state that a host may report. */
const ENTRY_TYPES: Readonly<Record<string, string>> = {
  running: 'exec.started',
  backgrounded: 'exec.backgrounded',
  done: 'exec.finished',
  failed: 'exec.finished',
  timed_out: 'exec.finished',
  stopped: 'exec.finished',
  interrupted: 'exec.interrupted',
  refused: 'exec.refused',
  expired: 'exec.refused',
  withdrawn: 'exec.refused',
};

/** The part of a report that the record does not have yet, in order; stops at the first step outside the table. */
function newSteps(record: CallRecord, outcome: Outcome): { type: string; state: string; atMs: number }[] {
  const steps: { type: string; state: string; atMs: number }[] = [];
  let state = record.state;
  const known = outcome.reports.findLastIndex((report) => report.state === state);
  for (const report of outcome.reports.slice(known + 1)) {
    const type = ENTRY_TYPES[report.state];
    if (type === undefined) continue;
    if (!isCallState(state) || !isCallState(report.state) || !isTransitionAllowed(state, report.state)) break;
    state = report.state;
    steps.push({ type, state, atMs: Number(report.atMs) });
  }
  return steps;
}

/** Most changes that one outcome may report; a file tool makes one. */
/** Said of a backend that checks only what a command names. */
const NOT_ISOLATED = 'not isolated';
const MAX_CHANGES = 8;

const factsOf = (state: FileChange['before']) =>
  state ? { digest: Buffer.from(state.digest).toString('hex'), size: Number(state.size) } : null;

function changeEntry(record: CallRecord, outcome: Outcome, change: FileChange) {
  const { id, path, rollsBack, uncertain } = change;
  const facts = {
    change: id.slice(0, 64),
    path: maskText(path),
    before: factsOf(change.before),
    after: factsOf(change.after),
  };
  return callEntry({
    callId: record.callId,
    type: rollsBack === '' ? 'file.changed' : 'file.rolled_back',
    attempt: id.slice(0, 64),
    nowMs: Number(outcome.reports.at(-1)?.atMs ?? 0n),
    body: {
      host: outcome.host,
      detail: { ...facts, ...(rollsBack ? { rolls_back: rollsBack } : {}), ...(uncertain ? { uncertain } : {}) },
    },
  });
}

async function recordOutcome(gateway: Gateway, record: CallRecord, outcome: Outcome): Promise<void> {
  const steps = newSteps(record, outcome);
  const last = steps.at(-1);
  const { callId } = record;
  // A repeated report: the gateway that recorded it may have died before it told the agent.
  if (!last) {
    await announce(gateway, callId, outcome.code);
    return;
  }
  const nowMs = gateway.now();
  const ran = steps.some(({ state }) => state === 'running');
  const differs =
    ran && outcome.executedDigest.length > 0 && Buffer.compare(outcome.executedDigest, record.callDigest) !== 0;
  if (differs)
    gateway.logger.error(
      { call: callId, host: outcome.host },
      'ALARM: executed arguments differ from the approved ones',
    );
  const reason = maskText(outcome.reason);
  const detail = {
    order: outcome.orderId,
    state: last.state,
    backend: outcome.backend,
    ...(outcome.backend === 'app-guard' ? { isolation: NOT_ISOLATED } : {}),
    reason,
    code: outcome.code,
    violations: outcome.violations.map(maskText).slice(0, 50),
    ...(outcome.egress.length > 0 ? { egress: outcome.egress.map(maskText).slice(0, 200) } : {}),
    executed: Buffer.from(outcome.executedDigest).toString('hex'),
  };
  const entries = steps.map((step) =>
    callEntry({
      callId,
      type: step.type,
      attempt: outcome.orderId,
      toState: step.state,
      nowMs: step.atMs,
      body: { host: outcome.host, detail: { ...detail, state: step.state } },
    }),
  );
  const fileChanges = outcome.fileChanges.slice(0, MAX_CHANGES);
  for (const change of fileChanges) entries.push(changeEntry(record, outcome, change));
  if (isCallState(last.state) && isTerminal(last.state)) {
    entries.push(callEntry({ callId, type: 'call.closed', nowMs, body: { detail: { state: last.state } } }));
  }
  const reply = await gateway.audit.append({ entries, sealedResult: outcome.sealedResult, fileChanges, reason });
  if (reply.refusal)
    gateway.logger.warn(
      { code: reply.refusal.code, call: callId },
      'outcome was not recorded; the record has moved on',
    );
  gateway.atStep('outcome.recorded');
  if (reply.call) await announceRecord(gateway, { ...reply.call, sealedResult: outcome.sealedResult }, outcome.code);
  else await announce(gateway, callId, outcome.code);
}

/** Takes a message of `cs.v1.outcome.<host>`: signed by that host, about an order that the record gave to it. */
export async function takeOutcome(gateway: Gateway, subject: string, bytes: Uint8Array): Promise<void> {
  const id = subject.split('.').at(-1) ?? '';
  const host = await gateway.members.find('host', id);
  if (!host) return gateway.logger.warn({ subject }, 'outcome of an unknown host');
  const opened = openEnvelope(bytes, {
    kind: EnvelopeKind.OUTCOME,
    subject,
    issuer: isKeyOf(host, gateway.now()),
    nowMs: gateway.now(),
  });
  if (!opened.ok) return gateway.logger.warn({ subject, code: opened.error.code }, 'outcome is refused');
  let outcome: Outcome;
  try {
    outcome = Outcome.decode(opened.value.body);
  } catch {
    return gateway.logger.warn({ subject }, 'outcome is malformed');
  }
  const record = await gateway.audit.getCall('', outcome.callId);
  if (!record || record.orderId !== outcome.orderId || record.orderHost !== id || outcome.host !== id) {
    return gateway.logger.warn(
      { subject, call: outcome.callId.slice(0, 64) },
      'outcome is not about an order of this host',
    );
  }
  gateway.atStep('outcome.taken');
  await recordOutcome(gateway, record, outcome);
  gateway.atStep('outcome.announced');
  const state = outcome.reports.at(-1)?.state ?? '';
  sendControl(gateway, id, { action: 'recorded', callId: outcome.callId, orderId: outcome.orderId, reason: '', state });
}
