import { EnvelopeKind, Heartbeat, openEnvelope } from '@countersign/protocol';
import { isKeyOf, type Members } from '../record/members.ts';
import type { Journals } from './journals.ts';

const VALID_MS = 30_000;
/** A host without a heartbeat for this long is away. */
const AWAY_MS = 12_000;

export type HostState = {
  readonly heartbeat: Heartbeat;
  readonly seenMs: number;
  readonly sequence: bigint;
  readonly issuer: string;
};

/** A host as a person sees it. */
export type HostLine = {
  readonly host: string;
  readonly ready: boolean;
  readonly reason: string;
  readonly backends: string[];
  readonly running: number;
  /** Order classes that need passkeys there, -1 without a pins file; null while the host is away. */
  readonly pinnedClasses: number | null;
  /** Version of the roster that it keeps to; null while it is away. */
  readonly rosterVersion: number | null;
  /** Version and platform that it reported last; absent until it did. */
  readonly version?: string;
  readonly platform?: string;
  /** Clock of the gateway at the newest heartbeat, milliseconds since the Unix epoch. */
  readonly seenMs?: number;
  /** How far the host's clock was ahead of the gateway's then, the way included, milliseconds. */
  readonly clockAheadMs?: number;
  /** Id of its enrolled journal; null before its first heartbeat was recorded. */
  readonly journal: string | null;
};

const reportedBy = ({ heartbeat, seenMs }: HostState) => ({
  version: heartbeat.version,
  platform: heartbeat.platform,
  seenMs,
  clockAheadMs: Number(heartbeat.atMs) - seenMs,
});

/** Live state of the hosts, from their signed heartbeats. */
export class Hosts {
  readonly #members: Members;
  readonly journals: Journals;
  readonly #states = new Map<string, HostState>();

  readonly #confirmed = new Map<string, bigint>();

  constructor(members: Members, journals: Journals) {
    this.#members = members;
    this.journals = journals;
  }

  /** Takes a message of `cs.v1.heartbeat.<host>`; anything not signed by that enrolled host is dropped. */
  take(subject: string, bytes: Uint8Array, nowMs: number): void {
    const id = subject.split('.').at(-1) ?? '';
    const member = this.#members.knownHost(id);
    if (!member) return;
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.HEARTBEAT,
      subject,
      issuer: isKeyOf(member, nowMs),
      nowMs,
      maxAgeMs: VALID_MS,
    });
    if (!opened.ok || opened.value.sequence <= (this.#states.get(id)?.sequence ?? -1n)) return;
    const heartbeat = Heartbeat.decode(opened.value.body);
    if (heartbeat.host !== id) return;
    this.journals.take(heartbeat);
    this.#states.set(id, { heartbeat, seenMs: nowMs, sequence: opened.value.sequence, issuer: opened.value.issuer });
  }

  /** True when a host keeps to a newer freeze epoch than the one that was recorded for it. */
  confirmsMore(id: string, epoch: bigint): boolean {
    return epoch > (this.#confirmed.get(id) ?? 0n);
  }

  /** A host's confirmation of this epoch is in the record. */
  confirmed(id: string, epoch: bigint): void {
    this.#confirmed.set(id, epoch);
  }

  /** The newest heartbeat of a host, however old. */
  last(id: string): Heartbeat | undefined {
    return this.#states.get(id)?.heartbeat;
  }

  /** Clock of the gateway at the newest heartbeat of a host, ms; undefined when it has heard none. */
  seenMs(id: string): number | undefined {
    return this.#states.get(id)?.seenMs;
  }

  /** Every heartbeat that is known. */
  all(): Heartbeat[] {
    return [...this.#states.values()].map(({ heartbeat }) => heartbeat);
  }

  /** True when a host must not be given work, because its journal is not the enrolled one. */
  isWithheld(id: string): boolean {
    const heartbeat = this.last(id);
    return heartbeat !== undefined && this.journals.fault(heartbeat) !== '';
  }

  /** The newest heartbeat of a host that is not away; one whose journal is in doubt says that it is not ready. */
  present(id: string, nowMs: number): Heartbeat | undefined {
    const state = this.#states.get(id);
    const member = this.#members.knownHost(id);
    // Also when its key was revoked after it spoke.
    if (!state || !member || !isKeyOf(member, nowMs)(state.issuer)) return undefined;
    if (nowMs - state.seenMs > AWAY_MS) return undefined;
    const fault = this.journals.fault(state.heartbeat);
    return fault === '' ? state.heartbeat : { ...state.heartbeat, ready: false, reason: fault };
  }

  /** Every enrolled host as a person sees it. What a host reported last stays shown while it is away. */
  list(nowMs: number): HostLine[] {
    return this.#members.hosts().map(({ id }) => {
      const heartbeat = this.present(id, nowMs);
      const state = this.#states.get(id);
      return {
        ...(state ? reportedBy(state) : {}),
        host: id,
        ready: heartbeat?.ready ?? false,
        reason: heartbeat ? heartbeat.reason : 'no heartbeat was received',
        backends: heartbeat?.backends ?? [],
        running: heartbeat?.running ?? 0,
        pinnedClasses: heartbeat?.pinnedClasses ?? null,
        rosterVersion: heartbeat?.rosterVersion ?? null,
        journal: this.journals.enrolled(id) ?? null,
      };
    });
  }
}
