import { createHash } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import {
  ERROR_CODES,
  endsProblem,
  type KnownRoster,
  openRoster,
  type Roster,
  type RosterMember,
  subjects,
} from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';
import { recordAct } from './admin-log.ts';
import type { AccessRefusal } from './authenticator.ts';

const KIND = 'roster';
const CURRENT = 'current';

const documentSchema = z.object({ version: z.number(), signed: z.base64() });

const stateOf = ({ untilMs, revoked }: RosterMember): string =>
  revoked ? 'revoked' : untilMs === undefined ? 'active' : `until ${untilMs}`;

/** Keys of a roster by what changed about them, for the record. */
function changesOf(
  before: Roster | undefined,
  after: Roster,
): { role: string; id: string; key: string; state: string }[] {
  const known = new Map(before?.members.map((member) => [member.signKey, stateOf(member)]));
  const changed = after.members.filter((member) => known.get(member.signKey) !== stateOf(member));
  const left = (before?.members ?? []).filter(
    ({ signKey }) => !after.members.some((member) => member.signKey === signKey),
  );
  return [
    ...changed.map((member) => ({ role: member.role, id: member.id, key: member.signKey, state: stateOf(member) })),
    ...left.map(({ role, id, signKey }) => ({ role, id, key: signKey, state: 'removed' })),
  ];
}

/** The roster in force: kept in the record, signed by the organisation root, newer versions only. */
export class Rosters {
  readonly known: KnownRoster;
  readonly #audit: AuditLog;
  readonly #rootKey: string;
  readonly #now: () => number;

  constructor(options: { known: KnownRoster; audit: AuditLog; rootKey: string; now: () => number }) {
    this.known = options.known;
    this.#audit = options.audit;
    this.#rootKey = options.rootKey;
    this.#now = options.now;
  }

  /** Takes what the record holds, or puts the configured roster there when it is newer. Rejects when the record cannot be reached. */
  async open(): Promise<void> {
    const recorded = await this.#recorded();
    if (recorded) this.known.take(new Uint8Array(Buffer.from(recorded.value.signed, 'base64')));
    if (this.known.version > (recorded?.value.version ?? 0))
      await this.#put(this.known.signed, 'configuration', () => undefined);
  }

  /** Follows what is published elsewhere. */
  follow(connection: NatsConnection): void {
    connection.subscribe(subjects.roster(), {
      callback: (error, message) => {
        if (!error) this.known.take(message.data);
      },
    });
  }

  /**
   * Puts a signed roster in force. Refused unless the root signed it, its version is higher than every one before, and the
   * overlaps that it gives have begun and not ended.
   */
  publish(signed: Uint8Array, by: string): Promise<Result<Roster, AccessRefusal>> {
    return this.#put(signed, by, (before, after) => {
      const ends = new Map(before?.members.map(({ signKey, untilMs }) => [signKey, untilMs]));
      const lines = after.members.map(({ signKey, untilMs, revoked }) => ({
        key: signKey,
        untilMs: revoked ? undefined : untilMs,
      }));
      return endsProblem(ends, lines, this.#now());
    });
  }

  async #put(
    signed: Uint8Array,
    by: string,
    problemOf: (before: Roster | undefined, after: Roster) => string | undefined,
  ): Promise<Result<Roster, AccessRefusal>> {
    const refuse = (message: string) => err({ code: ERROR_CODES.keysRefused, message });
    const opened = openRoster(signed, this.#rootKey);
    if (!opened.ok) return refuse(`the roster is refused: ${opened.error.message}`);
    const recorded = await this.#recorded();
    const { version } = opened.value;
    if (version <= (recorded?.value.version ?? 0)) return refuse('a roster never goes back; sign a higher version');
    const kept = recorded && openRoster(new Uint8Array(Buffer.from(recorded.value.signed, 'base64')), this.#rootKey);
    const before = kept?.ok ? kept.value : undefined;
    const problem = problemOf(before, opened.value);
    if (problem !== undefined) return refuse(problem);
    const keys = changesOf(before, opened.value);
    const sha256 = createHash('sha256').update(signed).digest('hex');
    const value = { version, signed: Buffer.from(signed).toString('base64') };
    await recordAct(this.#audit, { what: 'roster.published', by, detail: { version, sha256, keys } }, this.#now(), [
      { kind: KIND, key: CURRENT, expectedVersion: recorded?.version ?? 0n, value },
    ]);
    this.known.take(signed);
    return ok(opened.value);
  }

  async #recorded() {
    const [document] = await this.#audit.listDocuments(KIND, CURRENT);
    if (!document) return undefined;
    const parsed = documentSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
    return parsed.success ? { value: parsed.data, version: document.version } : undefined;
  }
}
