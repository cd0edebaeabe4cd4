import { readFileSync } from 'node:fs';
import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream';
import {
  type Authenticator,
  connect,
  credsAuthenticator,
  type NatsConnection,
  nkeyAuthenticator,
} from '@nats-io/transport-node';
import type { Place } from './place.ts';

export type NatsPlaceOptions = {
  readonly url: string;
  /** Subject of a JetStream stream that keeps the checkpoints. */
  readonly subject: string;
  /** `.creds` file of the user that publishes, or a file with its NKey seed (`SU…`). */
  readonly credentialsFile?: string | undefined;
  /** CA of a server with TLS; with it TLS is demanded. */
  readonly caFile?: string | undefined;
};

type Line = { readonly nats: NatsConnection; readonly js: JetStreamClient; readonly jsm: JetStreamManager };

function authenticator(file: string): Authenticator {
  const text = readFileSync(file, 'utf8').trim();
  const bytes = new TextEncoder().encode(text);
  return text.startsWith('SU') ? nkeyAuthenticator(bytes) : credsAuthenticator(bytes);
}

async function open({ url, credentialsFile, caFile }: NatsPlaceOptions): Promise<Line> {
  const nats = await connect({
    servers: url,
    name: 'countersign-publication',
    maxReconnectAttempts: -1,
    timeout: 5_000,
    ...(credentialsFile === undefined ? {} : { authenticator: authenticator(credentialsFile) }),
    ...(caFile === undefined ? {} : { tls: { caFile } }),
  });
  try {
    return { nats, js: jetstream(nats), jsm: await jetstreamManager(nats) };
  } catch (error) {
    await nats.close();
    throw error;
  }
}

/** A subject of a broker outside, whose stream keeps every checkpoint. It counts as taken when the stream has it. */
export function natsPlace(options: NatsPlaceOptions): Place {
  const { subject } = options;
  let line: Line | undefined;
  let sequence = 0;
  const connected = async () => {
    line ??= await open(options);
    return line;
  };
  return {
    takesTiles: false,
    keep: () => Promise.reject(new Error('a subject takes checkpoints alone')),
    checkpoint: async () => {
      const { jsm } = await connected();
      const message = await jsm.streams.getMessage(await jsm.streams.find(subject), { last_by_subj: subject });
      sequence = message?.seq ?? 0;
      return message?.string();
    },
    replaceCheckpoint: async (note) => {
      const { js } = await connected();
      await js.publish(subject, note, { expect: { lastSubjectSequence: sequence } });
    },
    close: async () => {
      await line?.nats.close();
      line = undefined;
    },
  };
}
