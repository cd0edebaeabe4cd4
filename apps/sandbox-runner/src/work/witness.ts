import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { Clock } from '@countersign/kernel';
import {
  type Checkpoint,
  cosignature,
  cosignedMessage,
  equalBytes,
  formatSignedNote,
  parseSignedNote,
  verifyConsistency,
  verifyInclusion,
  verifySignedNote,
  witnessKeyId,
} from '@countersign/merkle';
import {
  type Identity,
  ProofReply,
  ProofRequest,
  type Receipt,
  rawPublicKey,
  verifySignature,
} from '@countersign/protocol';
import { type Logger, replaceFile } from '@countersign/service-kit';
import { z } from 'zod';

/** A host starts nothing when the newest good checkpoint is older. */
const MAX_AGE_MS = 120_000;
/** Shortest time between two proofs, and between two cosignatures. */
const ASK_MS = 15_000;
const COSIGN_MS = 600_000;
/** A request without an answer is repeated after this. */
const RETRY_MS = 3_000;
/** Receipts whose inclusion is not proven yet; the oldest are given up beyond this. */
const MAX_RECEIPTS = 1_000;
const MAX_PATHS = 64;

const keptSchema = z.strictObject({ origin: z.string(), note: z.string(), fault: z.string().default('') });
type Kept = z.output<typeof keptSchema> & { readonly checkpoint: Checkpoint };
type Acted = { readonly index: number; readonly leafHash: Uint8Array; readonly callId: string };

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

export type WitnessOptions = {
  /** Keeps the newest good checkpoint, so that a restart does not forget it. */
  readonly file: string;
  readonly identity: Identity;
  /** Public NKeys of the log that count now. */
  readonly logKeys: () => readonly string[];
  readonly clock: Clock;
  /** Asks audit for proofs; rejects when it does not answer. */
  readonly ask: (request: Uint8Array) => Promise<Uint8Array>;
  readonly logger: Pick<Logger, 'fatal' | 'warn'>;
};

/**
 * Watches the log for this host. Keeps the newest checkpoint that it found good and takes a newer one only as a proven extension;
 * later checks that each receipt it acted on is in the log. SECURITY: a log that shows this host another history, or lacks a
 * decision that it acted on, is a fault that stays until the file is removed by hand.
 */
export class Witness {
  readonly #options: WitnessOptions;
  #kept: Kept | undefined;
  #goodMs = Number.NEGATIVE_INFINITY;
  #askedMs = Number.NEGATIVE_INFINITY;
  #cosignedMs = Number.NEGATIVE_INFINITY;
  #asking = false;
  #acted: Acted[] = [];

  /** Throws when the kept file is there and cannot be read: forgetting would accept another history. */
  constructor(options: WitnessOptions) {
    this.#options = options;
    if (!existsSync(options.file)) return;
    const kept = keptSchema.parse(JSON.parse(readFileSync(options.file, 'utf8')));
    const checkpoint = this.#read(kept.note, kept.origin) ?? unverified(kept.note);
    this.#kept = { ...kept, checkpoint };
  }

  /** Why this host must not run anything any more; empty while the log is one. */
  fault(): string {
    return this.#kept?.fault ?? '';
  }

  /** Why nothing may start at this moment; empty when the newest good checkpoint is fresh. */
  stale(): string {
    if (this.fault() !== '') return this.fault();
    return this.#options.clock.now() - this.#goodMs > MAX_AGE_MS
      ? 'no checkpoint of the log was proven for 2 minutes'
      : '';
  }

  /** Notes that an order with this receipt starts. */
  acted({ logIndex, leafHash, callId }: Receipt): void {
    this.#acted.push({ index: Number(logIndex), leafHash, callId });
    if (this.#acted.length > MAX_RECEIPTS) this.#acted.shift();
  }

  /** Takes the checkpoint of a beat. Asks for proofs when it is time. */
  async see(note: string): Promise<void> {
    if (this.fault() !== '') return;
    const seen = this.#read(note, this.#kept?.origin);
    if (!seen) return;
    if (!this.#kept) this.#keep(note, seen);
    const kept = this.#kept?.checkpoint ?? seen;
    if (seen.size === kept.size) {
      if (equalBytes(seen.root, kept.root)) this.#goodMs = this.#options.clock.now();
      else this.#fail(`the log shows two roots for ${seen.size} entries`, note);
    }
    // A smaller one may be of a writer that was stopped and has not noticed; it makes nothing fresh.
    if (seen.size < kept.size) return;
    const isDue = seen.size > kept.size || this.#acted.some(({ index }) => index < seen.size) || this.#mayCosign();
    if (isDue && this.#options.clock.now() - this.#askedMs >= ASK_MS) await this.#prove();
  }

  #mayCosign(): boolean {
    return this.#options.clock.now() - this.#cosignedMs >= COSIGN_MS;
  }

  async #prove(): Promise<void> {
    if (this.#asking || !this.#kept) return;
    this.#asking = true;
    const { clock, ask, logger } = this.#options;
    const { checkpoint, note } = this.#kept;
    const wanted = this.#acted.slice(0, MAX_PATHS);
    const cosigned = this.#mayCosign() ? this.#cosign(note) : '';
    try {
      const request = ProofRequest.fromPartial({
        oldSize: BigInt(checkpoint.size),
        logIndexes: wanted.map(({ index }) => BigInt(index)),
        cosigned,
      });
      const reply = ProofReply.decode(await ask(ProofRequest.encode(request).finish()));
      this.#askedMs = clock.now();
      if (cosigned !== '') this.#cosignedMs = clock.now();
      this.#judge(reply, wanted);
    } catch (error) {
      this.#askedMs = clock.now() - ASK_MS + RETRY_MS;
      logger.warn({ err: error }, 'audit gave no proof of the log; asking again');
    } finally {
      this.#asking = false;
    }
  }

  /** Takes a reply that extends what is kept; anything that shows another history is a fault. */
  #judge(reply: ProofReply, wanted: readonly Acted[]): void {
    const kept = this.#kept;
    const next = kept && this.#read(reply.checkpoint, kept.origin);
    if (!kept || !next || next.size < kept.checkpoint.size) return;
    const old = kept.checkpoint;
    const claim = { oldSize: old.size, newSize: next.size, oldRoot: old.root, newRoot: next.root };
    const isExtension =
      next.size === old.size
        ? equalBytes(old.root, next.root)
        : verifyConsistency(sha256, { ...claim, proof: reply.consistency });
    if (!isExtension) {
      this.#fail(`the log of ${next.size} entries does not extend that of ${old.size}`, reply.checkpoint);
      return;
    }
    this.#checkReceipts(reply, next, wanted);
    if (this.fault() !== '') return;
    if (next.size > old.size) this.#keep(reply.checkpoint, next);
    this.#goodMs = this.#options.clock.now();
  }

  #checkReceipts(reply: ProofReply, { size, root }: Checkpoint, wanted: readonly Acted[]): void {
    for (const receipt of wanted.filter(({ index }) => index < size)) {
      const { index, leafHash: leaf } = receipt;
      const proof = reply.paths.find(({ logIndex }) => Number(logIndex) === index)?.path;
      if (!proof || !verifyInclusion(sha256, { leaf, index, size, root, proof })) {
        this.#fail(`the decision on call \`${receipt.callId}\` is not in the log at ${index}`, reply.checkpoint);
        return;
      }
      this.#acted = this.#acted.filter((one) => one !== receipt);
    }
  }

  #read(note: string, origin: string | undefined): Checkpoint | undefined {
    const name = origin ?? note.split('\n', 1)[0] ?? '';
    for (const key of this.#options.logKeys()) {
      const verifyEd25519 = (_raw: Uint8Array, message: Uint8Array, signature: Uint8Array) =>
        verifySignature(key, message, signature);
      const read = verifySignedNote(note, { name, publicKey: rawPublicKey(key), sha256, verifyEd25519 });
      if (read.ok) return read.value;
    }
    return undefined;
  }

  #cosign(note: string): string {
    const parsed = parseSignedNote(note);
    if (!parsed.ok) return '';
    const { identity, clock } = this.#options;
    const name = `host/${identity.id}`;
    const seconds = Math.floor(clock.now() / 1_000);
    const signature = identity.sign(cosignedMessage(parsed.value.text, seconds));
    const keyId = witnessKeyId(sha256, name, rawPublicKey(identity.publicKey));
    return formatSignedNote(parsed.value.text, [
      ...parsed.value.signatures,
      cosignature({ name, keyId, seconds, signature }),
    ]);
  }

  #keep(note: string, checkpoint: Checkpoint): void {
    this.#write({ origin: checkpoint.origin, note, fault: '', checkpoint });
  }

  #fail(fault: string, note: string): void {
    const kept = this.#kept;
    if (!kept) return;
    this.#options.logger.fatal({ kept: kept.note, shown: note }, `${fault}; this host runs nothing any more`);
    this.#write({ ...kept, fault });
  }

  #write(kept: Kept): void {
    this.#kept = kept;
    const { origin, note, fault } = kept;
    replaceFile(this.#options.file, JSON.stringify({ origin, note, fault }));
  }
}

/** What a kept note says when its key does not count any more: it was verified when it was kept. */
function unverified(note: string): Checkpoint {
  const [origin = '', size = '', root = ''] = note.split('\n');
  return { origin, size: Number(size), root: new Uint8Array(Buffer.from(root, 'base64')) };
}
