import { err, ok, type Result } from '@countersign/kernel';
import { z } from 'zod';
import { type EnvelopeError, openEnvelope, signEnvelope } from './envelope.ts';
import { EnvelopeKind } from './gen/countersign/v1/envelope.ts';
import type { Identity } from './identity.ts';
import { overlapSchema, withEnds } from './overlap.ts';

const memberSchema = z.strictObject({
  role: z.enum(['gateway', 'audit', 'log', 'control']),
  id: z.string().min(1).max(64),
  signKey: z.string().length(56),
  sealKey: z.string().min(43).max(44),
  /** End of the overlap after a rotation, Unix time in milliseconds; nothing that the key signs counts from then on. */
  untilMs: z.int().min(1).optional(),
  /** The key was taken by somebody else or is not needed any more: nothing that it signs counts, whatever its date. */
  revoked: z.literal(true).optional(),
});
export const rosterSchema = z.strictObject({
  version: z.int().min(1),
  members: z.array(memberSchema).min(1).max(256),
});
const draftMemberSchema = memberSchema.extend({
  /** The overlap of a key that is replaced; its end is fixed when the root signs. */
  overlapMinutes: overlapSchema.optional(),
});
export const rosterDraftSchema = rosterSchema.extend({ members: z.array(draftMemberSchema).min(1).max(256) });

/** A control plane key, as the organisation root vouches for it. */
export type RosterMember = z.infer<typeof memberSchema>;
/** Versioned public keys of the control plane. An older version than one seen is refused by whoever keeps the newest. */
export type Roster = z.infer<typeof rosterSchema>;
/** A roster before the root signs it. */
export type RosterDraft = z.infer<typeof rosterDraftSchema>;

const SUBJECT = 'roster';

/** Signs a roster with the organisation root key; overlaps of the draft begin at `nowMs`. */
export function signRoster(root: Identity, draft: RosterDraft, nowMs: number = Date.now()): Uint8Array {
  const roster = rosterSchema.parse({ ...draft, members: withEnds(draft.members, nowMs) });
  const body = new TextEncoder().encode(JSON.stringify(roster));
  return signEnvelope(root, { kind: EnvelopeKind.ROSTER, subject: SUBJECT, body, nowMs });
}

/** Opens a roster signed by the pinned root key. */
export function openRoster(
  bytes: Uint8Array,
  rootPublicKey: string,
): Result<Roster, EnvelopeError | { code: 'malformed_roster'; message: string }> {
  const opened = openEnvelope(bytes, {
    kind: EnvelopeKind.ROSTER,
    subject: SUBJECT,
    issuer: rootPublicKey,
    nowMs: Date.now(),
  });
  if (!opened.ok) return opened;
  try {
    return ok(rosterSchema.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(opened.value.body))));
  } catch {
    return err({ code: 'malformed_roster', message: 'roster does not have the expected form' });
  }
}

/** True while the root vouches for a key. */
const isLive = ({ untilMs, revoked }: RosterMember, nowMs: number): boolean =>
  revoked !== true && (untilMs === undefined || nowMs < untilMs);

/** Keys of `role` that count at `nowMs`, the newest of a rotation before the one that it replaces. */
export const liveKeys = (roster: Roster, role: RosterMember['role'], nowMs: number): RosterMember[] =>
  roster.members
    .filter((member) => member.role === role && isLive(member, nowMs))
    .sort((a, b) => Number(a.untilMs !== undefined) - Number(b.untilMs !== undefined));

/** The newest key of `role` that counts. Throws when the roster has none. */
export function rosterKey(roster: Roster, role: RosterMember['role'], nowMs: number = Date.now()): RosterMember {
  const [member] = liveKeys(roster, role, nowMs);
  if (!member) throw new TypeError(`roster version ${roster.version} has no \`${role}\` key`);
  return member;
}
