import { liveKeys, openRoster, type Roster, type RosterMember, rosterKey } from './roster.ts';

export type KnownRosterOptions = {
  readonly rootKey: string;
  readonly now: () => number;
  /** Keeps the bytes of a newer roster, so that a restart does not go back behind it. */
  readonly keep?: (signed: Uint8Array) => void;
};

/**
 * The newest roster that a member has seen. INVARIANT: it never goes back to an older version, so that a key that was
 * revoked stays revoked. Whoever delivers a roster, only the root's signature makes it count.
 */
export class KnownRoster {
  readonly #options: KnownRosterOptions;
  #signed: Uint8Array;
  #roster: Roster;

  /** @param signed the roster to begin with. Throws a TypeError when the root did not sign it. */
  constructor(signed: Uint8Array, options: KnownRosterOptions) {
    const opened = openRoster(signed, options.rootKey);
    if (!opened.ok) throw new TypeError(`the roster is refused: ${opened.error.message}`);
    this.#options = options;
    this.#signed = signed;
    this.#roster = opened.value;
  }

  get version(): number {
    return this.#roster.version;
  }

  /** The roster as the root signed it. */
  get signed(): Uint8Array {
    return this.#signed;
  }

  get current(): Roster {
    return this.#roster;
  }

  /** Takes a roster; false when it is not newer or the root did not sign it. Throws when it cannot be kept. */
  take(signed: Uint8Array): boolean {
    const opened = openRoster(signed, this.#options.rootKey);
    if (!opened.ok || opened.value.version <= this.#roster.version) return false;
    this.#options.keep?.(signed);
    this.#signed = signed;
    this.#roster = opened.value;
    return true;
  }

  /** True while `key` is a key of `role` that counts; during a rotation the old and the new one do. */
  isKey(role: RosterMember['role'], key: string): boolean {
    return liveKeys(this.#roster, role, this.#options.now()).some(({ signKey }) => signKey === key);
  }

  /** The newest key of `role`. Throws when there is none that counts. */
  key(role: RosterMember['role']): RosterMember {
    return rosterKey(this.#roster, role, this.#options.now());
  }
}
