import { err, isSubjectToken, ok, type Result } from '@countersign/kernel';
import { type CallRecord, EntryDraft, type Freeze, type FreezeConfirmation } from '@countersign/protocol';

/** Scopes that may be frozen at once; a beat lists all of them. `all` is never refused. */
const MAX_FREEZES = 1_000;
const MAX_TEXT = 1_000;

/** What is frozen, as of one epoch. Replaced, never changed. */
export type FreezeState = {
  /** Rises with every freeze and every clearing. */
  readonly epoch: bigint;
  /** By scope. */
  readonly freezes: ReadonlyMap<string, Freeze>;
  /** By host. */
  readonly confirmations: ReadonlyMap<string, FreezeConfirmation>;
};

/** What an operator, or a host through its gateway, asks for. */
export type FreezeChange =
  | {
      readonly kind: 'set';
      readonly scope: string;
      readonly reason: string;
      readonly subject: string;
      readonly stopRunning: boolean;
    }
  | { readonly kind: 'clear'; readonly scope: string; readonly reason: string; readonly subject: string }
  | { readonly kind: 'confirm'; readonly host: string; readonly epoch: bigint; readonly running: number };

export type FreezeRefusal = { readonly code: 'invalid' | 'not_found' | 'conflict'; readonly message: string };
/** The state after a change and the entry that records it; no entry when nothing changed. */
export type FreezeStep = { readonly state: FreezeState; readonly entry: EntryDraft | undefined };

export const emptyFreezeState: FreezeState = { epoch: 0n, freezes: new Map(), confirmations: new Map() };

/** True for `all`, `host:<id>`, `agent:<id>` and `session:<id>`. */
export function isFreezeScope(scope: string): boolean {
  if (scope === 'all') return true;
  const [, id] = /^(?:host|agent|session):(.*)$/s.exec(scope) ?? [];
  return id !== undefined && isSubjectToken(id);
}

/** The freeze that holds a call, if one does. A session's freeze holds its descendants. */
export function freezeOf(
  state: FreezeState,
  call: Pick<CallRecord, 'agent' | 'host' | 'sessionId' | 'ancestorSessionIds'>,
): Freeze | undefined {
  if (state.freezes.size === 0) return undefined;
  const scopes = ['all', `host:${call.host}`, `agent:${call.agent}`];
  for (const id of [call.sessionId, ...call.ancestorSessionIds]) scopes.push(`session:${id}`);
  for (const scope of scopes) {
    const freeze = state.freezes.get(scope);
    if (freeze) return freeze;
  }
  return undefined;
}

function entryOf(id: string, type: string, nowMs: number, detail: object): EntryDraft {
  const body = new TextEncoder().encode(JSON.stringify({ detail }));
  return EntryDraft.fromPartial({ id, type, stream: 'freeze', emittedMs: BigInt(nowMs), body });
}

const isPlainText = (text: string): boolean => text.length <= MAX_TEXT && text.isWellFormed() && !text.includes('\0');

function checkTexts(change: { scope: string; reason: string; subject: string }): FreezeRefusal | undefined {
  const invalid = (message: string) => ({ code: 'invalid' as const, message });
  if (!isFreezeScope(change.scope))
    return invalid('a scope is `all`, `host:<id>`, `agent:<id>` or `session:<id>`; name one of them');
  if (change.subject === '' || change.reason === '') return invalid('say who and why');
  if (!isPlainText(change.subject) || !isPlainText(change.reason))
    return invalid(`subject and reason are plain text of at most ${MAX_TEXT} characters`);
  return undefined;
}

type Change<Kind> = Extract<FreezeChange, { kind: Kind }>;

function set(state: FreezeState, change: Change<'set'>, nowMs: number): Result<FreezeStep, FreezeRefusal> {
  const wrong = checkTexts(change);
  if (wrong) return err(wrong);
  const { scope, reason, subject, stopRunning } = change;
  const known = state.freezes.get(scope);
  if (known && known.stopRunning === stopRunning && known.reason === reason && known.subject === subject)
    return ok({ state, entry: undefined });
  if (!known && scope !== 'all' && state.freezes.size >= MAX_FREEZES)
    return err({ code: 'invalid', message: `${MAX_FREEZES} scopes are frozen; freeze \`all\` instead` });
  const epoch = state.epoch + 1n;
  const freeze: Freeze = { scope, epoch, reason, subject, stopRunning, setMs: BigInt(nowMs) };
  const detail = { scope, epoch: Number(epoch), reason, subject, stop_running: stopRunning };
  return ok({
    state: { ...state, epoch, freezes: new Map([...state.freezes, [scope, freeze]]) },
    entry: entryOf(`ent_freeze_${epoch}`, 'freeze.set', nowMs, detail),
  });
}

function clear(state: FreezeState, change: Change<'clear'>, nowMs: number): Result<FreezeStep, FreezeRefusal> {
  const wrong = checkTexts(change);
  if (wrong) return err(wrong);
  const { scope, reason, subject } = change;
  const known = state.freezes.get(scope);
  if (!known) return err({ code: 'not_found', message: `\`${scope}\` is not frozen` });
  const epoch = state.epoch + 1n;
  const freezes = new Map(state.freezes);
  freezes.delete(scope);
  const detail = { scope, epoch: Number(epoch), set_epoch: Number(known.epoch), reason, subject };
  return ok({
    state: { ...state, epoch, freezes },
    entry: entryOf(`ent_freeze_${epoch}`, 'freeze.cleared', nowMs, detail),
  });
}

function confirm(state: FreezeState, change: Change<'confirm'>, nowMs: number): Result<FreezeStep, FreezeRefusal> {
  const { host, epoch, running } = change;
  if (!isSubjectToken(host)) return err({ code: 'invalid', message: 'host is not an id' });
  if (epoch > state.epoch)
    return err({ code: 'conflict', message: `freeze epoch ${epoch} does not exist; the newest is ${state.epoch}` });
  const known = state.confirmations.get(host);
  if (known && epoch <= known.epoch) return ok({ state, entry: undefined });
  const confirmation: FreezeConfirmation = { host, epoch, running, confirmedMs: BigInt(nowMs) };
  return ok({
    state: { ...state, confirmations: new Map([...state.confirmations, [host, confirmation]]) },
    entry: entryOf(`ent_freeze_confirmed_${host}_${epoch}`, 'freeze.confirmed', nowMs, {
      host,
      epoch: Number(epoch),
      running,
    }),
  });
}

/** The state after a change. The caller records the entry in the same commit, or drops both. */
export function changeFreeze(
  state: FreezeState,
  change: FreezeChange,
  nowMs: number,
): Result<FreezeStep, FreezeRefusal> {
  if (change.kind === 'set') return set(state, change, nowMs);
  return change.kind === 'clear' ? clear(state, change, nowMs) : confirm(state, change, nowMs);
}
