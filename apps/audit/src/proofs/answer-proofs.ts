import type { NoteVerifier } from '@countersign/merkle';
import { ProofReply, ProofRequest, rawPublicKey } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import type pg from 'pg';
import type { StoredCheckpoint } from '../sequencer/checkpoint-store.ts';
import { addCosignatures, sha256, verifyEd25519 } from './cosignatures.ts';
import { proveConsistency, proveInclusion } from './prove.ts';

const MAX_PATHS = 64;
/** Requests in hand; a host whose request is dropped asks again. */
const MAX_AT_ONCE = 8;

export type AnswerProofsOptions = {
  readonly nats: NatsConnection;
  /** Connections that only read; and one that keeps cosignatures. */
  readonly reader: pg.Pool;
  readonly pool: pg.Pool;
  readonly newest: () => StoredCheckpoint;
  /** Resolves with how many entries the index covers. */
  readonly indexed: (size: number) => Promise<number>;
  readonly now: () => number;
  readonly log: (error: unknown) => void;
};

type HostKeys = {
  readonly sign_key: string;
  readonly previous?: readonly { readonly sign_key: string; readonly until_ms: number }[];
  readonly revoked?: readonly string[];
};

/** Keys of an enrolled host that count now, the old and the new one during a rotation, each as the witness `host/<id>`. */
async function hostWitness(reader: pg.Pool, host: string, nowMs: number): Promise<NoteVerifier[]> {
  const { rows } = await reader.query<{ value: HostKeys }>(
    "select value from audit.document where kind = 'member' and key = $1",
    [`host:${host}`],
  );
  const keys = rows[0]?.value;
  if (typeof keys?.sign_key !== 'string') return [];
  const old = (keys.previous ?? []).filter(({ until_ms }) => nowMs < until_ms).map(({ sign_key }) => sign_key);
  return [keys.sign_key, ...old]
    .filter((key) => !keys.revoked?.includes(key))
    .map((key) => ({ name: `host/${host}`, publicKey: rawPublicKey(key), sha256, verifyEd25519 }));
}

/** Proofs against the newest stored checkpoint; undefined for a size that this log does not have. */
async function replyTo(request: ProofRequest, options: AnswerProofsOptions): Promise<ProofReply | undefined> {
  const { reader, newest, indexed } = options;
  const { size, note } = newest();
  const oldSize = Number(request.oldSize);
  if (size === 0 || (await indexed(size)) < size) return undefined;
  const wanted = request.logIndexes
    .slice(0, MAX_PATHS)
    .map(Number)
    .filter((index) => index < size);
  const paths = await proveInclusion(reader, wanted, size);
  const extension = oldSize > 0 && oldSize < size ? await proveConsistency(reader, oldSize, size) : { proof: [] };
  return {
    checkpoint: note,
    consistency: extension.proof.map((hash) => Buffer.from(hash)),
    paths: wanted.map((index, at) => ({
      logIndex: BigInt(index),
      path: (paths[at] ?? []).map((hash) => Buffer.from(hash)),
    })),
  };
}

/**
 * Answers the proof subjects of hosts until the connection ends. Nothing here is secret, and what is answered proves itself, so
 * a request needs no signature; a cosignature is kept when the enrolled host of that name made it.
 */
export function answerProofs(options: AnswerProofsOptions): void {
  const { nats, pool, reader, now, log } = options;
  let inHand = 0;
  const answer = async (data: Uint8Array, host: string): Promise<Uint8Array | undefined> => {
    const request = ProofRequest.decode(data);
    if (request.cosigned !== '')
      await addCosignatures(pool, request.cosigned, await hostWitness(reader, host, now()), now());
    const reply = await replyTo(request, options);
    return reply && ProofReply.encode(reply).finish();
  };
  nats.subscribe('cs.v1.proof.*', {
    callback: (error, message) => {
      if (error || inHand >= MAX_AT_ONCE) return;
      inHand += 1;
      answer(message.data, message.subject.split('.').at(-1) ?? '')
        .then((bytes) => bytes && message.respond(bytes), log)
        .finally(() => {
          inHand -= 1;
        });
    },
  });
}
