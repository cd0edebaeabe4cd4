import { isSubjectToken } from '@countersign/kernel';
import { z } from 'zod';
import type { AuditLog } from './audit-log.ts';
import { json } from './entries.ts';

const token = z.string().refine(isSubjectToken, 'use 1 to 64 of A-Z a-z 0-9 _ -');

const signKey = z.string().regex(/^U[A-Z2-7]{55}$/);

/** An enrolled agent or host. None of these facts is ever taken from a message. */
export const memberSchema = z.strictObject({
  role: z.enum(['agent', 'host']),
  id: token,
  sign_key: signKey,
  seal_key: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  principal: z.string().min(1).max(128),
  hosts: z.array(token).max(1_000),
  roots: z.record(token, z.array(z.string().startsWith('/').max(4_096)).max(100)),
  tools: z.array(z.string().min(1).max(128)).max(1_000),
  queues: z.array(z.string().min(1).max(64)).max(100),
  task: z.string().max(2_000),
  /** Keys that were replaced, newest first, each until the end of its overlap; kept for as long as what they signed may wait. */
  previous: z
    .array(z.strictObject({ sign_key: signKey, until_ms: z.int().min(1) }))
    .max(32)
    .default([]),
  /** Keys that never count again. */
  revoked: z.array(signKey).max(64).default([]),
});

export type Member = z.infer<typeof memberSchema>;

/** A member with the key that signed its message; without one, a person acts in its name. */
export type Sender = Member & { readonly key?: string };

/** True for a key that counts as this member's at `nowMs`; during a rotation the old and the new one do. */
export const isKeyOf =
  ({ sign_key, previous, revoked }: Member, nowMs: number) =>
  (key: string): boolean =>
    !revoked.includes(key) &&
    (key === sign_key || previous.some((old) => old.sign_key === key && nowMs < old.until_ms));

/** Longest wait of a call; architecture.md. A replaced key can be revoked for as long as something that it signed may wait. */
const KEPT_MS = 7 * 24 * 3_600_000;
const MAX_KEPT = 32;

/** Keys that a member had before the one that follows now, which counts until `untilMs`. */
export const replacedKeys = ({ sign_key, previous }: Member, untilMs: number, nowMs: number): Member['previous'] =>
  [{ sign_key, until_ms: untilMs }, ...previous.filter((old) => nowMs < old.until_ms + KEPT_MS)].slice(0, MAX_KEPT);

/** The member as it is enrolled anew: what was revoked stays so, and a key before counts no longer unless it is the same one. */
export function enrolledAnew(member: Member, before: Member | undefined, nowMs: number): Member {
  if (!before) return member;
  const previous =
    before.sign_key === member.sign_key ? before.previous : replacedKeys(before, Math.max(1, nowMs), nowMs);
  return { ...member, previous, revoked: before.revoked };
}

/**
 * True while what a key signed may start: it is the member's own, or was replaced, whatever its overlap, and was not revoked.
 * A call may wait for days, and a rotation ends nothing.
 */
export const mayStart = ({ sign_key, previous, revoked }: Member, key: string): boolean =>
  !revoked.includes(key) && (key === sign_key || previous.some((old) => old.sign_key === key));

/** The entry of a member's enrolment. A later one replaces its keys and facts. */
export function memberEntry(
  { role, id, sign_key, principal }: Member,
  { version, by, nowMs, invitation }: { version: bigint; by: string; nowMs: number; invitation?: string },
) {
  const detail = { role, id, sign_key, principal, by, ...(invitation === undefined ? {} : { invitation }) };
  return {
    id: `ent_${role}_${id}_member.joined_${version}`,
    type: 'member.joined',
    stream: `member.${role}.${id}`,
    emittedMs: BigInt(nowMs),
    body: json({ detail }),
  };
}

/** True when nothing but the history of keys differs. */
const sameFacts = (left: Member, right: Member): boolean => {
  const facts = (member: Member) => JSON.stringify({ ...member, previous: [], revoked: [] });
  return facts(left) === facts(right);
};

/** Shortest time between two reads for members that are not known. */
const REFRESH_MS = 200;

/** Enrolment records, read from the record service and kept in memory. */
export class Members {
  readonly #audit: AuditLog;
  readonly #known = new Map<string, { member: Member; version: bigint }>();
  #readAtMs = 0;

  constructor(audit: AuditLog) {
    this.#audit = audit;
  }

  /** Reads all records again. */
  async refresh(): Promise<void> {
    const documents = await this.#audit.listDocuments('member');
    this.#readAtMs = Date.now();
    for (const document of documents) {
      const parsed = memberSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
      if (parsed.success) this.#known.set(document.key, { member: parsed.data, version: document.version });
    }
  }

  /** The member, after a fresh read when it is not known and the last read is a while ago. */
  async find(role: Member['role'], id: string): Promise<Member | undefined> {
    const key = `${role}:${id}`;
    if (!this.#known.has(key) && Date.now() - this.#readAtMs > REFRESH_MS) await this.refresh();
    return this.#known.get(key)?.member;
  }

  /** The member with the version of its document, read now. */
  async newest(role: Member['role'], id: string): Promise<{ member: Member; version: bigint } | undefined> {
    await this.refresh();
    return this.#known.get(`${role}:${id}`);
  }

  /**
   * The document that lets a key of an agent start what it signed, as it is known here; undefined when the key may not. INVARIANT:
   * an append that names it is refused once anything of the member changed, so that no revocation comes too late.
   */
  standing(agent: string, key: string): { kind: 'member'; key: string; version: bigint } | undefined {
    const name = `agent:${agent}`;
    const known = this.#known.get(name);
    return known && mayStart(known.member, key) ? { kind: 'member', key: name, version: known.version } : undefined;
  }

  /** A known host; undefined when not read yet. */
  knownHost(id: string): Member | undefined {
    return this.#known.get(`host:${id}`)?.member;
  }

  /** Everybody who is known; another gateway's enrolments within seconds. */
  all(): Member[] {
    return [...this.#known.values()].map(({ member }) => member);
  }

  hosts(): Member[] {
    return [...this.#known.values()].map(({ member }) => member).filter(({ role }) => role === 'host');
  }

  /** Records a member. Nothing is written when it is already enrolled with exactly these facts. */
  async enrol(member: Member, by: string, nowMs: number): Promise<{ refused?: string }> {
    await this.refresh();
    const key = `${member.role}:${member.id}`;
    const known = this.#known.get(key);
    if (known && sameFacts(known.member, member)) return {};
    const version = known?.version ?? 0n;
    if (known?.member.revoked.includes(member.sign_key)) return { refused: 'this key was revoked; make new keys' };
    const value = enrolledAnew(member, known?.member, nowMs);
    const reply = await this.#audit.append({
      entries: [memberEntry(member, { version: version + 1n, by, nowMs })],
      documents: [{ kind: 'member', key, value: json(value), expectedVersion: version }],
    });
    if (reply.refusal) return { refused: reply.refusal.message };
    this.#known.set(key, { member: value, version: version + 1n });
    return {};
  }
}
