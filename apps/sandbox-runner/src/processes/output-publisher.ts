import type { Clock } from '@countersign/kernel';
import {
  EnvelopeKind,
  type Identity,
  OutputChunk,
  OutputText,
  sealTo,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import type { BrokerLink } from '../work/broker-link.ts';
import type { OutputPiece } from '../work/host-tools.ts';

export type OutputPublisherOptions = {
  readonly connection: NatsConnection;
  readonly link: BrokerLink;
  readonly identity: Identity;
  readonly controlSealKey: () => string;
  readonly host: string;
  readonly clock: Clock;
};

/** One command whose output goes out. */
export type OutputLine = { readonly orderId: string; readonly callId: string };

type State = { number: bigint; underWay: boolean; waiting: OutputPiece | undefined };

const sizeOf = ({ stdout, stderr }: OutputPiece): number => stdout.length + stderr.length;
/** What waits behind a slow publication is not more than this; the rest is counted. */
const MAX_WAITING_BYTES = 64 * 1024;

function joined(first: OutputPiece | undefined, second: OutputPiece): OutputPiece {
  if (!first) return second;
  if (sizeOf(first) + sizeOf(second) > MAX_WAITING_BYTES) {
    return { ...first, droppedBytes: first.droppedBytes + second.droppedBytes + sizeOf(second) };
  }
  return {
    stdout: Buffer.concat([first.stdout, second.stdout]),
    stderr: Buffer.concat([first.stderr, second.stderr]),
    droppedBytes: first.droppedBytes + second.droppedBytes,
  };
}

/**
 * Publishes output while commands run: sealed to the control key, signed, numbered from 1 for each order. Nobody waits for
 * it and nothing of it is kept; the outcome has the lasting output.
 */
export class OutputPublisher {
  private readonly options: OutputPublisherOptions;
  private readonly states = new Map<string, State>();
  private sequence = 0n;

  constructor(options: OutputPublisherOptions) {
    this.options = options;
  }

  publish(line: OutputLine, piece: OutputPiece): void {
    const state = this.states.get(line.orderId) ?? { number: 0n, underWay: false, waiting: undefined };
    this.states.set(line.orderId, state);
    state.waiting = joined(state.waiting, piece);
    if (!state.underWay) void this.drain(line, state);
  }

  /** Forgets an order. */
  end(orderId: string): void {
    this.states.delete(orderId);
  }

  private async drain(line: OutputLine, state: State): Promise<void> {
    state.underWay = true;
    try {
      for (let piece = state.waiting; piece; piece = state.waiting) {
        state.waiting = undefined;
        await this.send(line, state, piece);
      }
    } catch {
      // Lost output is seen by the gap in the numbers.
    } finally {
      state.underWay = false;
    }
  }

  private async send({ orderId, callId }: OutputLine, state: State, piece: OutputPiece): Promise<void> {
    const { connection, link, identity, controlSealKey, host, clock } = this.options;
    state.number += 1n;
    if (!link.connected) return;
    const text = OutputText.encode({
      stdout: piece.stdout,
      stderr: piece.stderr,
      droppedBytes: BigInt(piece.droppedBytes),
    }).finish();
    const sealedText = await sealTo(controlSealKey(), text, orderId);
    const subject = subjects.output(host, callId);
    const body = OutputChunk.encode({ callId, orderId, number: state.number, sealedText }).finish();
    this.sequence += 1n;
    const nowMs = clock.now();
    const message = { kind: EnvelopeKind.OUTPUT, subject, body, nowMs, sequence: this.sequence };
    connection.publish(subject, signEnvelope(identity, message));
  }
}
