import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, verifyRotation } from '@countersign/protocol';
import type { AuditLog } from '../record/audit-log.ts';
import { isKeyOf, type Member, type Members, replacedKeys } from '../record/members.ts';
import { recordAct } from './admin-log.ts';
import type { AccessRefusal } from './authenticator.ts';

export type NewKeys = {
  readonly oldKey: string;
  readonly signKey: string;
  readonly sealKey: string;
  /** Signatures of the key that counts now and of the new one over the rotation. */
  readonly consent: Uint8Array;
  readonly proof: Uint8Array;
};

const MAX_PREVIOUS = 4;

const refuse = (message: string): Result<never, AccessRefusal> => err({ code: ERROR_CODES.keysRefused, message });

/** Rotation and revocation of the keys of hosts and agents. What an operator fixed of them never changes here. */
export class MemberKeys {
  readonly #audit: AuditLog;
  readonly #members: Members;
  readonly #now: () => number;

  constructor(options: { audit: AuditLog; members: Members; now: () => number }) {
    this.#audit = options.audit;
    this.#members = options.members;
    this.#now = options.now;
  }

  /**
   * Puts new keys beside the present ones, which count for `overlapMs` more. SECURITY: only the holder of the newest key can
   * ask for it, for a key that this member never had; the same request again changes nothing and is answered the same.
   */
  async rotate(
    role: Member['role'],
    id: string,
    { keys, overlapMs }: { keys: NewKeys; overlapMs: number },
  ): Promise<Result<Member, AccessRefusal>> {
    const found = await this.#members.newest(role, id);
    const nowMs = this.#now();
    const { oldKey, signKey, sealKey } = keys;
    if (!found || !isKeyOf(found.member, nowMs)(oldKey) || !verifyRotation({ role, id, ...keys }, keys))
      return refuse('the new keys are not signed with the present key and themselves');
    const { member, version } = found;
    const isDone = member.sign_key === signKey && member.previous[0]?.sign_key === oldKey;
    if (isDone && isKeyOf(member, nowMs)(signKey)) return ok(member);
    if (oldKey !== member.sign_key) return refuse('the present key was replaced already');
    const had = [member.sign_key, ...member.previous.map(({ sign_key }) => sign_key), ...member.revoked];
    if (had.includes(signKey)) return refuse('this key was used before; make new keys');
    const until_ms = nowMs + overlapMs;
    const live = member.previous.filter((old) => nowMs < old.until_ms);
    if (live.length >= MAX_PREVIOUS)
      return refuse('too many replaced keys still count; wait for the end of their overlap');
    const previous = replacedKeys(member, until_ms, nowMs);
    const detail = { role, id, key: signKey, replaces: member.sign_key, until_ms };
    const value: Member = { ...member, sign_key: signKey, seal_key: sealKey, previous };
    return this.#record({ what: 'key.rotated', by: `${role}:${id}`, detail }, { value, version });
  }

  /** Ends a key for good. A member whose newest key is revoked is out until it is enrolled again. */
  async revoke(role: Member['role'], id: string, key: string, by: string): Promise<Result<Member, AccessRefusal>> {
    const found = await this.#members.newest(role, id);
    if (!found) return err({ code: ERROR_CODES.notFound, message: 'no such member' });
    const { member, version } = found;
    const has = key === member.sign_key || member.previous.some(({ sign_key }) => sign_key === key);
    if (!has || member.revoked.includes(key)) return err({ code: ERROR_CODES.notFound, message: 'no such key' });
    const value: Member = { ...member, revoked: [...member.revoked, key].slice(-64) };
    return this.#record({ what: 'key.revoked', by, detail: { role, id, key } }, { value, version });
  }

  async #record(
    act: Parameters<typeof recordAct>[1],
    { value, version }: { value: Member; version: bigint },
  ): Promise<Result<Member, AccessRefusal>> {
    const key = `${value.role}:${value.id}`;
    await recordAct(this.#audit, act, this.#now(), [{ kind: 'member', key, expectedVersion: version, value }]);
    await this.#members.refresh();
    return ok(value);
  }
}
