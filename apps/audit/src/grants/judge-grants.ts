import { err, ok, type Result } from '@countersign/kernel';
import type { AppendRequest, CallRecord, EntryDraft } from '@countersign/protocol';
import { type GrantMemory, newGrant } from './grant-memory.ts';

export type GrantRefusal = { readonly code: 'invalid' | 'conflict' | 'stale_grants'; readonly message: string };

export type GrantView = {
  readonly grant: (id: string) => GrantMemory | undefined;
  /** The call that the request is about, as it will be. */
  readonly call: CallRecord | undefined;
  readonly nowMs: number;
};

/** Ids of the two entries of a grant's life: it ends once, revoked or expired. */
export const grantEntry = (grant: string, moment: 'created' | 'ended'): string => `ent_${grant}_grant.${moment}_1`;

const MOMENTS: Readonly<Record<string, 'created' | 'ended'>> = {
  'grant.created': 'created',
  'grant.revoked': 'ended',
  'grant.expired': 'ended',
};

/** The grant that an entry makes or ends, from its id; undefined for other entries, empty for a wrong id. */
function subjectOf(draft: EntryDraft): string | undefined {
  const moment = Object.hasOwn(MOMENTS, draft.type) ? MOMENTS[draft.type] : undefined;
  if (moment === undefined) return undefined;
  const id = draft.id.slice('ent_'.length, -`_grant.${moment}_1`.length);
  return draft.id === grantEntry(id, moment) ? id : '';
}

/** Grants that a request makes, ends or uses; what has to be known to judge it. */
export const grantsOf = (request: AppendRequest): string[] =>
  [...request.entries.map(subjectOf), ...request.grants].filter((id) => id !== undefined && id !== '') as string[];

const stale = (id: string, why: string): GrantRefusal => ({
  code: 'stale_grants',
  message: `grant \`${id.slice(0, 80)}\` ${why}; decide again`,
});

function checkUse(grant: GrantMemory | undefined, id: string, view: GrantView): GrantRefusal | undefined {
  if (!grant) return stale(id, 'is not known');
  if (grant.state !== 'live') return stale(id, 'has ended');
  if (grant.expires_ms !== 0 && view.nowMs >= grant.expires_ms) return stale(id, 'has run out');
  if (grant.max_uses !== 0 && grant.uses >= grant.max_uses) return stale(id, 'is used up');
  if (grant.session !== '' && view.call?.sessionId !== grant.session) return stale(id, 'belongs to another session');
  return undefined;
}

function changed(
  draft: EntryDraft,
  request: AppendRequest,
  view: GrantView,
): Result<GrantMemory | undefined, GrantRefusal> {
  const id = subjectOf(draft);
  if (id === undefined) return ok(undefined);
  if (id === '') return err({ code: 'invalid', message: `\`${draft.type}\` has an id that names no grant` });
  const known = view.grant(id);
  if (draft.type === 'grant.created') {
    if (known) return err({ code: 'conflict', message: `grant \`${id.slice(0, 80)}\` exists` });
    const grant = newGrant(id, request.grantBounds, view.nowMs);
    if (grant.expires_ms !== 0 && grant.expires_ms <= view.nowMs)
      return err({ code: 'invalid', message: 'a grant ends after it begins' });
    return ok(grant);
  }
  if (known?.state !== 'live') return err(stale(id, known ? 'has ended' : 'is not known'));
  return ok({ ...known, state: 'ended' });
}

const isDecidedByGrant = (request: AppendRequest): boolean =>
  request.decidedBy === 'grant' && request.entries.some((draft) => draft.toState === 'approved');

/**
 * Judges what a request says of grants: those that it changes, as they will be. INVARIANT: a decision by a grant names grants
 * that are alive, in time, not used up and not of another session at this very entry; a grant is made once and ends once.
 */
export function judgeGrants(request: AppendRequest, view: GrantView): Result<GrantMemory[], GrantRefusal> {
  const changes: GrantMemory[] = [];
  if (request.grants.length === 0) {
    const names = isDecidedByGrant(request) || request.entries.some((draft) => draft.type === 'grant.used');
    if (names) return err({ code: 'invalid', message: 'a use of a grant names it in `grants`' });
  }
  for (const id of new Set(request.grants)) {
    const grant = view.grant(id);
    const refused = checkUse(grant, id, view);
    if (refused) return err(refused);
    if (grant && grant.max_uses !== 0) changes.push({ ...grant, uses: grant.uses + 1 });
  }
  for (const draft of request.entries) {
    const change = changed(draft, request, view);
    if (!change.ok) return change;
    if (change.value === undefined) continue;
    if (changes.some((other) => other.id === change.value?.id))
      return err({ code: 'invalid', message: 'a request says one thing of a grant' });
    changes.push(change.value);
  }
  if (request.grantBounds && !request.entries.some((draft) => draft.type === 'grant.created'))
    return err({ code: 'invalid', message: 'bounds come with their `grant.created`' });
  return ok(changes);
}
