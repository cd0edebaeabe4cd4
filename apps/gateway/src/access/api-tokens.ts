import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { makeId } from '@countersign/kernel';
import { z } from 'zod';
import type { TokenRecord } from '../config.ts';
import type { AuditLog } from '../record/audit-log.ts';
import { recordAct } from './admin-log.ts';
import { commonRoles, type Directory } from './directory.ts';
import { groupsSchema, nameSchema, type Principal, ROLES, type Role, SCOPES, type Scope } from './principal.ts';
import { RecordView } from './record-view.ts';

const TOKEN = 'token';
const SECRET_BYTES = 32;
/** `cst_<id>_<secret>`: the id finds the record, so that one digest is compared, in constant time. */
const TOKEN_TEXT = /^cst_(tok_[0-9a-f]{32})_([\w-]{43})$/;

const tokenSchema = z.object({
  id: z.string(),
  label: z.string(),
  subject: nameSchema,
  roles: z.array(z.enum(ROLES)),
  groups: groupsSchema,
  scopes: z.array(z.enum(SCOPES)),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  created_by: z.string(),
  created_ms: z.number(),
  expires_ms: z.number(),
  revoked_ms: z.number().nullable(),
});

type Token = z.infer<typeof tokenSchema>;

/** A token as lists show it: without its digest. */
export type ListedToken = Omit<Token, 'sha256'>;

/** What a new token may do. `expiresMs` is milliseconds since the Unix epoch. */
export type NewToken = {
  readonly label: string;
  readonly subject: string;
  readonly roles: readonly Role[];
  readonly groups: readonly string[];
  readonly scopes: readonly Scope[];
  readonly expiresMs: number;
};

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** API tokens: those of the configuration, and those of the record, which expire and can be revoked. */
export class ApiTokens {
  readonly #audit: AuditLog;
  readonly #directory: Directory;
  readonly #configured: readonly { readonly digest: Buffer; readonly principal: Principal }[];
  readonly #recorded: RecordView<Token>;
  readonly #now: () => number;

  constructor(options: {
    audit: AuditLog;
    directory: Directory;
    configured: readonly TokenRecord[];
    now: () => number;
  }) {
    this.#audit = options.audit;
    this.#directory = options.directory;
    this.#now = options.now;
    this.#recorded = new RecordView({ audit: options.audit, kind: TOKEN, schema: tokenSchema, now: options.now });
    this.#configured = options.configured.map(({ name, role, groups, sha256 }) => ({
      digest: Buffer.from(sha256, 'hex'),
      principal: { name, roles: [role], groups, method: 'token', scopes: SCOPES },
    }));
  }

  /** Who holds `text`; undefined when nobody does now. Rejects when the record cannot be read. */
  async principalOf(text: string): Promise<Principal | undefined> {
    const digest = digestOf(text);
    let found: Principal | undefined;
    // Every record is compared, so that time does not tell which one matched.
    for (const { digest: known, principal } of this.#configured) if (timingSafeEqual(known, digest)) found = principal;
    const id = TOKEN_TEXT.exec(text)?.[1];
    return found ?? (id === undefined ? undefined : this.#byRecord(id, digest));
  }

  /** Makes a token; its text is in this answer only. */
  async create(wanted: NewToken, by: string): Promise<{ text: string; token: ListedToken }> {
    const nowMs = this.#now();
    const id = makeId('tok', nowMs, randomBytes);
    const text = `cst_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}`;
    const listed: ListedToken = {
      id,
      label: wanted.label,
      subject: wanted.subject,
      roles: [...wanted.roles],
      groups: [...wanted.groups],
      scopes: [...wanted.scopes],
      created_by: by,
      created_ms: nowMs,
      expires_ms: wanted.expiresMs,
      revoked_ms: null,
    };
    const { label, subject, roles, groups, scopes, expires_ms } = listed;
    const detail = { token: id, label, subject, roles, groups, scopes, expires_ms };
    const value = { ...listed, sha256: digestOf(text).toString('hex') };
    await recordAct(this.#audit, { what: 'token.created', by, detail }, nowMs, [
      { kind: TOKEN, key: id, expectedVersion: 0n, value },
    ]);
    this.#recorded.expire();
    return { text, token: listed };
  }

  /** Tokens of `subject`, or of everybody, newest first, without what could be used. */
  async list(subject?: string): Promise<ListedToken[]> {
    const all = [...(await this.#recorded.all()).values()].map(({ value: { sha256: _digest, ...rest } }) => rest);
    return all
      .filter((token) => subject === undefined || token.subject === subject)
      .sort((left, right) => right.created_ms - left.created_ms);
  }

  /** Revokes a token for good. False when `subject` has no such token; repeating it changes nothing. */
  async revoke(id: string, by: string, subject?: string): Promise<boolean> {
    this.#recorded.expire();
    const known = await this.#recorded.find(id);
    if (!known || (subject !== undefined && known.value.subject !== subject)) return false;
    if (known.value.revoked_ms !== null) return true;
    const nowMs = this.#now();
    const detail = { token: id, subject: known.value.subject };
    await recordAct(this.#audit, { what: 'token.revoked', by, detail }, nowMs, [
      { kind: TOKEN, key: id, expectedVersion: known.version, value: { ...known.value, revoked_ms: nowMs } },
    ]);
    this.#recorded.expire();
    return true;
  }

  async #byRecord(id: string, digest: Buffer): Promise<Principal | undefined> {
    const token = (await this.#recorded.find(id))?.value;
    if (!token || !timingSafeEqual(Buffer.from(token.sha256, 'hex'), digest)) return undefined;
    if (token.revoked_ms !== null || this.#now() >= token.expires_ms) return undefined;
    // SECURITY: a token never holds what its person has lost.
    const person = await this.#directory.find(token.subject);
    if (person && !person.active) return undefined;
    const roles = person ? commonRoles(token.roles, person.roles) : token.roles;
    const groups = person ? token.groups.filter((group) => person.groups.includes(group)) : token.groups;
    return { name: token.subject, roles, groups, method: 'token', scopes: token.scopes };
  }
}
