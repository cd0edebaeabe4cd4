import type { Decision } from '@countersign/policy';
import { CallPayload, type CallRecord, ERROR_CODES, parseIJson, type ToolName } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { grantsOf } from '../grants/use-grants.ts';
import { rulesOfCall } from '../layers/saved-rules.ts';
import { type Ground, groundOf, lastGround, lay } from '../layers/session-layers.ts';
import { callEntry } from '../record/entries.ts';
import type { SessionChain } from '../record/sessions.ts';
import { outsideRoots } from '../sessions/rooted.ts';
import { announce } from './announce.ts';
import { askHost } from './repeat-stops.ts';
import { readView, type View } from './view.ts';

const PAGE = 500;
const REASON = 'policy changed before the call started';

/** The session's ground as its host has it now; as it was last where the host is away. */
async function presentGround(gateway: Gateway, chain: SessionChain): Promise<Ground> {
  const { host } = chain.session;
  const member = gateway.hosts.present(host, gateway.now()) && (await gateway.members.find('host', host));
  const found = member && (await groundOf(gateway, chain, member));
  return found?.ok ? found.value : lastGround(gateway, chain);
}

/** What the policy in force answers for a recorded call of its session as it is now; undefined when it cannot be told. */
export async function decideAgain(gateway: Gateway, record: CallRecord, view: View): Promise<Decision | undefined> {
  const chain = await gateway.sessions.chain(record.sessionId);
  const host = gateway.hosts.last(record.host);
  if (!chain || !host) return undefined;
  const sealed = await gateway.audit.getPayload(record.callId, 'gateway: decide again');
  const payload = CallPayload.decode(
    await gateway.control.open(sealed?.sealedPayload ?? new Uint8Array(), record.callId),
  );
  const args = parseIJson(payload.arguments);
  if (!args.ok || typeof args.value !== 'object' || args.value === null || Array.isArray(args.value)) return undefined;
  const realpaths = Object.fromEntries(view.preconditions.map((item) => [item.path, item.real_path || item.path]));
  const { effect: tighten = '', source: tightenSource = '' } = view.tighten ?? {};
  const asked = args.value as Readonly<Record<string, unknown>>;
  const call = { tool: record.tool, executor: record.executor, args: asked, tighten, tightenSource };
  const ground = await presentGround(gateway, chain);
  const about = { tool: record.tool as ToolName, args: asked };
  const rules = record.executor === 'agent' ? [] : rulesOfCall(ground.rules, about, chain.session, host.home);
  const known = { realpaths, grants: grantsOf(gateway, record.sessionId), laid: lay(ground, rules) };
  return gateway.policy.current.decide(ground.chain.bounded, call, host, known);
}

async function isStricter(gateway: Gateway, record: CallRecord, view: View): Promise<boolean> {
  const member = await gateway.members.find('agent', record.agent);
  if (member && outsideRoots(gateway, member, record.host, view.project)) return true;
  const effect = (await decideAgain(gateway, record, view))?.effect;
  if (effect === 'deny' || effect === 'error') return true;
  const wasAsked = record.state === 'pending' || record.decidedBy === 'human' || record.decidedBy === 'guardian';
  return effect === 'ask' && !wasAsked;
}

/** Withdraws a call that has not started: at once when nothing left, otherwise when its host says so or the order expires. */
async function withdraw(gateway: Gateway, record: CallRecord): Promise<void> {
  const { callId } = record;
  const nowMs = gateway.now();
  const body = { detail: { by: 'policy', reason: REASON, policy_digest: gateway.policy.digest } };
  if (record.state === 'dispatched') {
    // A person's stop of the same call is an entry of its own.
    const requested = callEntry({ callId, type: 'call.cancel_requested', attempt: 'policy', nowMs, body });
    await gateway.audit.append({ entries: [requested] });
    askHost(gateway, record, { action: 'revoke', reason: REASON });
    return;
  }
  await gateway.audit.append({
    entries: [
      callEntry({ callId, type: 'approval.withdrawn', toState: 'withdrawn', nowMs, body }),
      callEntry({ callId, type: 'call.closed', nowMs, body: { detail: { state: 'withdrawn' } } }),
    ],
    reason: REASON,
  });
  const present = await announce(gateway, callId, ERROR_CODES.policyChanged);
  if (record.state === 'pending')
    gateway.hub.emit('approval_resolved', { callId, state: present?.state ?? 'withdrawn' }, record.queue);
}

/** Decides one unstarted call again and withdraws it when the answer became stricter; true when it was withdrawn. */
export async function redecideCall(gateway: Gateway, record: CallRecord): Promise<boolean> {
  const view = readView(record.view);
  if (!view || record.stopRequested || !(await isStricter(gateway, record, view))) return false;
  await withdraw(gateway, record);
  return true;
}

/** Calls that are decided again side by side; each costs a reading of its arguments. */
const AT_ONCE = 16;

const running = new WeakMap<Gateway, Promise<void>>();
/** Rules on which the last whole round began. */
const settled = new WeakMap<Gateway, string>();

/** Versions of what every session's decisions stand on. */
const rulesOf = (gateway: Gateway): string => `${gateway.policy.version} ${gateway.layers.basis().version}`;

async function decideEachAgain(gateway: Gateway): Promise<void> {
  const rules = rulesOf(gateway);
  let pageToken = '';
  do {
    const page = await gateway.audit.listCalls(['pending', 'approved', 'dispatched'], PAGE, pageToken);
    const calls = page.calls.values();
    const worker = async () => {
      for (const record of calls) await redecideCall(gateway, record);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  settled.set(gateway, rules);
}

/**
 * Decides every unstarted call again unless that was done on the rules in force; what has started goes on. One round runs at a
 * time, and another follows when they changed meanwhile. Every gateway does it, because whoever published them may
 * have died in between. Resolves when it is done; a failure is logged, and the next sweep asks again.
 */
export function redecideUnsettled(gateway: Gateway): Promise<void> {
  if (settled.get(gateway) === rulesOf(gateway)) return Promise.resolve();
  const rounds =
    running.get(gateway) ??
    decideEachAgain(gateway).then(
      () => {
        running.delete(gateway);
        return redecideUnsettled(gateway);
      },
      (error: unknown) => {
        running.delete(gateway);
        gateway.logger.warn({ err: error }, 'calls are not all decided again; the next sweep goes on');
      },
    );
  running.set(gateway, rounds);
  return rounds;
}
