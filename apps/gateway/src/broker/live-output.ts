import { EnvelopeKind, type Identity, OutputChunk, OutputText, openEnvelope } from '@countersign/protocol';
import type { AuditLog } from '../record/audit-log.ts';
import { isKeyOf, type Members } from '../record/members.ts';

const VALID_MS = 30_000;
const MAX_CALLS = 2_000;
const MAX_WATCHERS_OF_CALL = 50;

/** A verified piece of output. A gap in the numbers means that pieces were lost. */
export type LivePiece = {
  readonly number: number;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly droppedBytes: number;
};

export type Watcher = {
  readonly onPiece: (piece: LivePiece) => void;
  /** The call has ended. */
  readonly onEnd: () => void;
};

type Watched = { readonly watchers: Set<Watcher>; order: { readonly id: string; readonly host: string } | undefined };

export type LiveOutputParts = {
  readonly audit: AuditLog;
  readonly members: Members;
  readonly control: Identity;
  readonly now: () => number;
};

/** Output of running commands, for those who watch. Nothing is opened for a call that nobody watches. */
export class LiveOutput {
  readonly #parts: LiveOutputParts;
  readonly #calls = new Map<string, Watched>();

  constructor(parts: LiveOutputParts) {
    this.#parts = parts;
  }

  /**
   * Follows a call from now on; returns the end of it, or undefined when too many follow this call. Over the bound of calls
   * the one that is followed for longest ends: its end may have been told to another gateway.
   */
  watch(callId: string, watcher: Watcher): (() => void) | undefined {
    const watched = this.#calls.get(callId) ?? { watchers: new Set(), order: undefined };
    if (watched.watchers.size >= MAX_WATCHERS_OF_CALL) return undefined;
    const [oldest] = this.#calls.keys();
    if (oldest !== undefined && !this.#calls.has(callId) && this.#calls.size >= MAX_CALLS) this.end(oldest);
    this.#calls.set(callId, watched);
    watched.watchers.add(watcher);
    return () => {
      watched.watchers.delete(watcher);
      if (watched.watchers.size === 0 && this.#calls.get(callId) === watched) this.#calls.delete(callId);
    };
  }

  /** Tells the watchers of a call that it has ended. */
  end(callId: string): void {
    const watched = this.#calls.get(callId);
    this.#calls.delete(callId);
    for (const watcher of watched?.watchers ?? []) watcher.onEnd();
  }

  /** Takes a message of `cs.v1.output.<host>.<call>`; drops what the call's own host did not sign for its order. */
  async take(subject: string, bytes: Uint8Array): Promise<void> {
    const [host = '', callId = ''] = subject.split('.').slice(-2);
    const watched = this.#calls.get(callId);
    if (!watched) return;
    const member = await this.#parts.members.find('host', host);
    if (!member) return;
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.OUTPUT,
      subject,
      issuer: isKeyOf(member, this.#parts.now()),
      nowMs: this.#parts.now(),
      maxAgeMs: VALID_MS,
    });
    if (!opened.ok) return;
    const chunk = OutputChunk.decode(opened.value.body);
    watched.order ??= await this.#orderOf(callId);
    if (watched.order?.host !== host || watched.order.id !== chunk.orderId) return;
    const text = OutputText.decode(await this.#parts.control.open(chunk.sealedText, chunk.orderId));
    const { stdout, stderr, droppedBytes } = text;
    const piece = { number: Number(chunk.number), stdout, stderr, droppedBytes: Number(droppedBytes) };
    for (const watcher of watched.watchers) watcher.onPiece(piece);
  }

  async #orderOf(callId: string): Promise<Watched['order']> {
    const record = await this.#parts.audit.getCall('', callId);
    return record && record.orderId !== '' ? { id: record.orderId, host: record.orderHost } : undefined;
  }
}
