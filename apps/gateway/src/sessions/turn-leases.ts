import { isSubjectToken } from '@countersign/kernel';
import { type CallRecord, EnvelopeKind, Lease, openEnvelope } from '@countersign/protocol';
import { readView } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { isKeyOf } from '../record/members.ts';
import { cancelCallsOf } from './close-session.ts';

/** A turn that is not renewed for this long has ended; architecture.md. */
export const LEASE_MS = 30_000;
const MAX_TURNS = 100_000;

type Turn = { readonly session: string; readonly host: string; untilMs: number };

/**
 * Turns that agents keep alive. They live in memory; a gateway that starts gives every turn with open calls one whole lease.
 */
export class TurnLeases {
  readonly #turns = new Map<string, Turn>();
  readonly #sequences = new Map<string, bigint>();

  /** Takes a message of `cs.v1.lease.<agent>.<session>`; a `stop` ends the turn at once. */
  async take(gateway: Gateway, subject: string, bytes: Uint8Array): Promise<void> {
    const [agent = '', session = ''] = subject.split('.').slice(-2);
    const member = await gateway.members.find('agent', agent);
    if (!member) return;
    const expected = {
      kind: EnvelopeKind.LEASE,
      subject,
      issuer: isKeyOf(member, gateway.now()),
      nowMs: gateway.now(),
      maxAgeMs: LEASE_MS,
    };
    const opened = openEnvelope(bytes, expected);
    if (!opened.ok || opened.value.sequence <= (this.#sequences.get(subject) ?? -1n)) return;
    const lease = Lease.decode(opened.value.body);
    const found = isSubjectToken(lease.turnId) ? await gateway.sessions.find(session) : undefined;
    if (found?.session.agent !== agent) return;
    this.#sequences.set(subject, opened.value.sequence);
    if (lease.action === 'stop') return this.#end(gateway, lease.turnId, found.session, 'the turn was stopped');
    this.keep(lease.turnId, found.session, gateway.now());
  }

  /** Gives a turn one whole lease, unless it has one. */
  expect(turn: string, session: { id: string; host: string }, nowMs: number): void {
    if (!this.#turns.has(turn)) this.keep(turn, session, nowMs);
  }

  keep(turn: string, session: { id: string; host: string }, nowMs: number): void {
    if (this.#turns.size < MAX_TURNS || this.#turns.has(turn))
      this.#turns.set(turn, { session: session.id, host: session.host, untilMs: nowMs + LEASE_MS });
  }

  /** Gives every turn one whole lease, as after a restart. */
  renewAll(nowMs: number): void {
    for (const turn of this.#turns.values()) turn.untilMs = nowMs + LEASE_MS;
  }

  /** Ends every turn whose lease lapsed. */
  async endLapsed(gateway: Gateway): Promise<void> {
    const nowMs = gateway.now();
    for (const [turn, { session, host, untilMs }] of this.#turns)
      if (untilMs < nowMs) await this.#end(gateway, turn, { id: session, host }, 'the lease of the turn lapsed');
  }

  async #end(gateway: Gateway, turn: string, session: { id: string; host: string }, reason: string): Promise<void> {
    this.#turns.delete(turn);
    // What went to the background belongs to the session.
    const ofTurn = ({ state, view }: CallRecord) => state !== 'backgrounded' && readView(view)?.turn === turn;
    await cancelCallsOf(gateway, session.id, { name: 'turn', reason }, ofTurn);
  }
}
