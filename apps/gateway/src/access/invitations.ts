import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import {
  ERROR_CODES,
  formatInvitation,
  parseInvitation,
  rootFingerprint,
  verifyEnrolment,
} from '@countersign/protocol';
import { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';
import { json } from '../record/entries.ts';
import { enrolledAnew, type Member, memberEntry, memberSchema } from '../record/members.ts';
import { recordAct } from './admin-log.ts';
import type { AccessRefusal } from './authenticator.ts';
import { RecordView } from './record-view.ts';

const INVITATION = 'invitation';

/** What an operator fixes of a member before it has keys. */
export const factsSchema = memberSchema.omit({ sign_key: true, seal_key: true, previous: true, revoked: true });
export type MemberFacts = z.infer<typeof factsSchema>;

const invitationSchema = z.object({
  id: z.string(),
  member: factsSchema,
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  created_by: z.string(),
  expires_ms: z.number(),
  used_ms: z.number().nullable(),
});

export type EnrolmentKeys = { readonly signKey: string; readonly sealKey: string; readonly proof: Uint8Array };
export type Joined = { readonly member: Member; readonly entryId: string };

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest();

const refuse = (message: string): Result<never, AccessRefusal> => err({ code: ERROR_CODES.unauthenticated, message });

/** One-time invitations of hosts and agents. Only the digest of a secret is kept. */
export class Invitations {
  readonly #audit: AuditLog;
  readonly #rootKey: string;
  readonly #now: () => number;
  readonly #known: RecordView<z.infer<typeof invitationSchema>>;

  constructor(options: { audit: AuditLog; rootKey: string; now: () => number }) {
    this.#audit = options.audit;
    this.#rootKey = options.rootKey;
    this.#now = options.now;
    // Never from memory: a second use must meet the first.
    this.#known = new RecordView({ ...options, kind: INVITATION, schema: invitationSchema, maxAgeMs: -1 });
  }

  /** Makes an invitation; its text is in this answer only. */
  async create(
    member: MemberFacts,
    validMs: number,
    by: string,
  ): Promise<{ text: string; id: string; expiresMs: number }> {
    const id = `inv_${randomBytes(16).toString('hex')}`;
    const secret = randomBytes(32).toString('base64url');
    const nowMs = this.#now();
    const expiresMs = nowMs + validMs;
    const value = {
      id,
      member,
      sha256: digestOf(secret).toString('hex'),
      created_by: by,
      expires_ms: expiresMs,
      used_ms: null,
    };
    const detail = { invitation: id, role: member.role, id: member.id, principal: member.principal };
    await recordAct(this.#audit, { what: 'invitation.created', by, detail }, nowMs, [
      { kind: INVITATION, key: id, expectedVersion: 0n, value },
    ]);
    return { text: formatInvitation({ id, secret, rootFingerprint: rootFingerprint(this.#rootKey) }), id, expiresMs };
  }

  /**
   * Enrols the keys of whoever holds the invitation. INVARIANT: the invitation is spent in the transaction that records the
   * member, so that of two uses at once one is refused.
   */
  async redeem(text: string, keys: EnrolmentKeys): Promise<Result<Joined, AccessRefusal>> {
    const parsed = parseInvitation(text);
    const found = parsed && (await this.#known.find(parsed.id));
    const isRight = parsed && found && timingSafeEqual(Buffer.from(found.value.sha256, 'hex'), digestOf(parsed.secret));
    if (!isRight) return refuse('the invitation is not valid');
    const { value, version } = found;
    const nowMs = this.#now();
    if (value.used_ms !== null) return refuse('the invitation was used; ask the operator for a new one');
    if (nowMs >= value.expires_ms) return refuse('the invitation has expired; ask the operator for a new one');
    const { role, id } = value.member;
    const { signKey, sealKey, proof } = keys;
    if (!verifyEnrolment({ invitation: parsed.id, role, id, signKey, sealKey }, proof))
      return refuse('the keys are not proven to be yours');
    const key = `${role}:${id}`;
    const document = (await this.#audit.listDocuments('member', key))[0];
    const before = document && memberSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
    if (before?.data?.revoked.includes(signKey)) return refuse('this key was revoked; make new keys');
    const known = document?.version ?? 0n;
    const joins = memberSchema.parse({ ...value.member, sign_key: signKey, seal_key: sealKey });
    const member = enrolledAnew(joins, before?.data, nowMs);
    const entry = memberEntry(member, { version: known + 1n, by: value.created_by, nowMs, invitation: parsed.id });
    const reply = await this.#audit.append({
      entries: [entry],
      documents: [
        { kind: 'member', key, value: json(member), expectedVersion: known },
        { kind: INVITATION, key: value.id, value: json({ ...value, used_ms: nowMs }), expectedVersion: version },
      ],
    });
    if (reply.refusal?.code === ERROR_CODES.auditConflict) return refuse('the invitation was used at the same time');
    if (reply.refusal) return err({ code: ERROR_CODES.auditUnavailable, message: reply.refusal.message });
    return ok({ member, entryId: entry.id });
  }
}
