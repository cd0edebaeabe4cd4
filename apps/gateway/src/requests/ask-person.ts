import { findSuspicious, normalisePath } from '@countersign/patterns';
import { ERROR_CODES, parseIJson, type SessionCommand } from '@countersign/protocol';
import { tellAgent } from '../calls/announce.ts';
import type { CallRefusal } from '../calls/parse-call.ts';
import type { Gateway } from '../context.ts';
import type { ChangeProblem } from '../layers/recorded-layers.ts';
import { maskLine, maskText } from '../masking.ts';
import type { Sender } from '../record/members.ts';
import type { SessionChain } from '../record/sessions.ts';
import { approveUnattended } from './answer-request.ts';
import { planUpdates } from './plan-updates.ts';
import { type FolderRequest, type PermissionRequest, requestId, type UpdateRequest } from './request.ts';
import { emitRequest, tellRequest } from './tell-request.ts';
import { type Update, updatesSchema } from './updates.ts';

/** Requests wait as long as calls do. */
const WAIT_MS = 3_600_000;
/** Requests of one agent that wait at once. */
const MAX_WAITING = 20;
/** Requests that one agent makes within an hour, whatever became of them: they are kept, and somebody has to look at each. */
const MAX_AN_HOUR = 200;
const HOUR_MS = 3_600_000;
const MAX_UPDATE_BYTES = 65_536;
const MAX_REASON = 2_000;

const problem = (code: ChangeProblem['code'], message: string): ChangeProblem => ({ code, message });

function parseUpdates(bytes: Uint8Array): readonly Update[] | ChangeProblem {
  const invalid = (message: string) => problem(ERROR_CODES.invalidArguments, message);
  if (bytes.length > MAX_UPDATE_BYTES) return invalid(`updates are over ${MAX_UPDATE_BYTES} bytes`);
  const value = parseIJson(bytes);
  if (!value.ok) return invalid('updates are not JSON');
  const parsed = updatesSchema.safeParse(value.value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  return invalid(`updates: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`.slice(0, 400));
}

/** Why no more is asked for an agent now; undefined when there is room. */
async function tooMany(gateway: Gateway, agent: string): Promise<ChangeProblem | undefined> {
  return beyondLimits(await gateway.requests.all(), agent, gateway.now());
}

/** Why an agent with these requests asks for no more at `nowMs`; undefined when it may. */
export function beyondLimits(
  requests: readonly Pick<PermissionRequest, 'agent' | 'state' | 'at_ms'>[],
  agent: string,
  nowMs: number,
): ChangeProblem | undefined {
  const own = requests.filter((one) => one.agent === agent);
  if (own.filter(({ state }) => state === 'waiting').length >= MAX_WAITING)
    return problem(ERROR_CODES.rateLimited, `${MAX_WAITING} requests of this agent wait already; ask again later`);
  if (own.filter(({ at_ms }) => nowMs - at_ms < HOUR_MS).length >= MAX_AN_HOUR)
    return problem(ERROR_CODES.rateLimited, `this agent made ${MAX_AN_HOUR} requests within an hour; ask again later`);
  return undefined;
}

function frozen(gateway: Gateway, { session, ancestors }: SessionChain): ChangeProblem | undefined {
  const sessions = [session.id, ...ancestors.map((one) => one.session.id)];
  const scope = gateway.freeze.holds({ agent: session.agent, host: session.host, sessions });
  return scope === undefined
    ? undefined
    : problem(ERROR_CODES.frozen, `\`${scope}\` is frozen; ask again when that is lifted`);
}

/** Records a new request and shows it at the desk; false when somebody recorded it at the same moment. */
async function ask(
  gateway: Gateway,
  request: PermissionRequest,
  says: readonly string[],
  version = 0n,
): Promise<boolean> {
  const step = { what: 'permission.requested', by: request.agent, says: says.map(maskText) } as const;
  if (!(await gateway.requests.record(request, version, step))) return false;
  emitRequest(gateway, request);
  return true;
}

/**
 * Takes a permission update that an agent asks for its open session: checked against ceilings and ancestors at once, then it
 * waits for a person, whatever the approval mode of the session is. A resend is answered from the record.
 */
export async function askUpdate(
  gateway: Gateway,
  member: Sender,
  chain: SessionChain,
  command: SessionCommand,
): Promise<void> {
  const { session } = chain;
  const id = requestId(['update', member.id, session.id, command.requestId]);
  const known = (await gateway.requests.find(id))?.value;
  if (known) return tellRequest(gateway, known);
  const refuse = ({ code, message }: ChangeProblem) =>
    tellAgent(gateway, member.id, {
      ...{ type: 'session.answer', sessionId: session.id, requestId: command.requestId },
      ...{ code, reason: message },
    });
  const updates = parseUpdates(command.updates);
  if ('code' in updates) return refuse(updates);
  const held = frozen(gateway, chain) ?? (await tooMany(gateway, member.id));
  if (held) return refuse(held);
  const plan = await planUpdates(gateway, chain, updates, { by: '', from: id });
  if (!plan.ok) return refuse(plan.error);
  const nowMs = gateway.now();
  const request: UpdateRequest = {
    ...{ id, kind: 'update', agent: member.id, principal: member.principal, host: session.host },
    ...{ queue: member.queues[0] ?? 'default', reason: maskText(command.reason.slice(0, MAX_REASON)) },
    ...{ at_ms: nowMs, until_ms: nowMs + WAIT_MS, state: 'waiting' },
    ...(member.key === undefined ? {} : { key: member.key }),
    ...{ session: session.id, request: command.requestId, project: session.project, updates: [...updates] },
  };
  if (!(await ask(gateway, request, plan.value.says))) return askUpdate(gateway, member, chain, command);
  if (await approveUnattended(gateway, request)) return;
  await tellRequest(gateway, request);
}

const isPlainFolder = (path: string): boolean =>
  path.startsWith('/') &&
  path.length <= 4_096 &&
  normalisePath(path, '/', '/') === path &&
  findSuspicious(path) === undefined;

/**
 * Turns the refusal of a folder that an agent may not work in into a request to trust it. Resolves to what the agent is told:
 * the refusal, and what came of the request.
 */
export async function askFolder(
  gateway: Gateway,
  member: Sender,
  { host, path, opens }: { readonly host: string; readonly path: string; readonly opens: string },
  refusal: CallRefusal,
): Promise<CallRefusal & { readonly state: string; readonly requestId: string }> {
  const bare = { ...refusal, state: '', requestId: '' };
  if (!member.hosts.includes(host) || !isPlainFolder(path)) return bare;
  const id = requestId(['folder', member.id, host, path]);
  const known = await gateway.requests.find(id);
  const nowMs = gateway.now();
  const isOver = known === undefined || known.value.state === 'approved' || nowMs >= known.value.until_ms;
  const told = ({ state, by = '', answer = '' }: PermissionRequest) => ({
    code: refusal.code,
    message:
      state === 'waiting'
        ? `${refusal.message}; it waits at the desk as \`${id}\``
        : `${refusal.message}; ${state}${by ? ` by ${by}` : ''}${answer ? `: ${answer}` : ''}`,
    state: state === 'waiting' ? 'pending' : state,
    requestId: id,
  });
  if (known && !isOver) return told(known.value);
  const scope = gateway.freeze.holds({ agent: member.id, host, sessions: [] });
  if (scope !== undefined || (await tooMany(gateway, member.id))) return bare;
  const request: FolderRequest = {
    ...{ id, kind: 'folder', agent: member.id, principal: member.principal, host, path, opens },
    ...{ queue: member.queues[0] ?? 'default', reason: '', at_ms: nowMs, until_ms: nowMs + WAIT_MS, state: 'waiting' },
    ...(member.key === undefined ? {} : { key: member.key }),
  };
  await ask(gateway, request, [`trust folder \`${maskLine(path)}\``], known?.version);
  return told(request);
}
