import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, createPublicKey, verify } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Bundle, type DroppedLeaf, type Verification, verifyBundle } from '@countersign/merkle';
import {
  type AppendReply,
  AppendRequest,
  AuditClient,
  type CallRecord,
  createIdentity,
  type ExportChunk,
  type IdentityFile,
  openIdentity,
  rawPublicKey,
  signRoster,
} from '@countersign/protocol';
import { grpcClient, isServing } from '@countersign/service-kit';
import {
  type EmbeddedNats,
  type EmbeddedPostgres,
  freePort,
  startNats,
  startPostgres,
} from '@countersign/service-kit/embedded';
import type { ClientDuplexStream } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import type { Draft } from './drafts.ts';
import { newDatabase, QUICK } from './new-database.ts';

const LOG_NAME = 'countersign/test';
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex');
const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());

/** One audit process and the line to it. */
export class AuditProcess {
  readonly child: ChildProcess;
  readonly port: number;
  readonly client: AuditClient;
  #stream: ClientDuplexStream<AppendRequest, AppendReply> | undefined;
  readonly #waiting = new Map<bigint, (reply: AppendReply) => void>();
  #requestId = 0n;

  constructor(child: ChildProcess, port: number) {
    this.child = child;
    this.port = port;
    this.client = grpcClient(AuditClient, `127.0.0.1:${port}`);
  }

  /** Resolves when the process serves. Fails when it ends first. */
  async serving(): Promise<void> {
    await expect.poll(() => this.child.exitCode ?? isServing(`127.0.0.1:${this.port}`), { timeout: 45_000 }).toBe(true);
  }

  /** True while it answers as the writer of the log. */
  isServing(): Promise<boolean> {
    return isServing(`127.0.0.1:${this.port}`);
  }

  get ended(): Promise<number | null> {
    if (this.child.exitCode !== null) return Promise.resolve(this.child.exitCode);
    if (this.child.signalCode !== null) return Promise.resolve(null);
    return new Promise((resolve) => this.child.once('exit', resolve));
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
    this.client.close();
  }

  /** Appends on one kept stream; stays without an answer when the process ends. */
  append(request: Draft): Promise<AppendReply> {
    if (!this.#stream) {
      this.#stream = this.client.append();
      this.#stream.on('data', (reply: AppendReply) => this.#waiting.get(reply.requestId)?.(reply));
      this.#stream.on('error', () => undefined);
    }
    this.#requestId += 1n;
    const message = AppendRequest.fromPartial({ ...request, requestId: this.#requestId });
    return new Promise((resolve) => {
      this.#waiting.set(message.requestId, resolve);
      this.#stream?.write(message);
    });
  }

  getCall(callId: string): Promise<CallRecord> {
    return new Promise((resolve, reject) =>
      this.client.getCall({ agent: 'sample', callId }, (error, call) => (error ? reject(error) : resolve(call))),
    );
  }

  async exportLog(): Promise<{ dropped: DroppedLeaf[]; leaves: Uint8Array[]; checkpoint: string }> {
    const leaves: Uint8Array[] = [];
    const dropped: DroppedLeaf[] = [];
    let checkpoint = '';
    for await (const chunk of this.client.export({}) as AsyncIterable<ExportChunk>) {
      for (let at = 0; at < chunk.dropped.length; at += 32)
        dropped.push({ leafHash: chunk.dropped.subarray(at, at + 32) });
      leaves.push(...chunk.leaves);
      checkpoint = chunk.checkpoint || checkpoint;
    }
    return { dropped, leaves, checkpoint };
  }
}

/** Real servers of a suite, a fresh database for each test, and audit processes on it. */
export type AuditSuite = {
  readonly folder: string;
  readonly databaseUrl: string;
  /** One more database, empty but for its schema. */
  readonly anotherDatabase: () => Promise<string>;
  readonly nats: EmbeddedNats;
  readonly identities: Record<'root' | 'audit' | 'log', IdentityFile>;
  /** Starts a process without waiting; `changes` go over its configuration; with `daysAgo` its clock is that much behind. */
  readonly spawn: (changes?: object, daysAgo?: number) => Promise<AuditProcess>;
  /** Starts a process and waits until it serves. */
  readonly start: (changes?: object, daysAgo?: number) => Promise<AuditProcess>;
  /** The export, verified; `more` goes over what is verified. */
  readonly verified: (from: AuditProcess, more?: Partial<Bundle>) => Promise<Verification>;
};

export function useAudit(): AuditSuite {
  const folder = mkdtempSync(path.join(tmpdir(), 'countersign-audit-'));
  const held: {
    postgres?: EmbeddedPostgres;
    nats?: EmbeddedNats;
    identities?: AuditSuite['identities'];
    url: string;
    processes: AuditProcess[];
  } = { url: '', processes: [] };

  beforeAll(async () => {
    const [root, audit, log] = await Promise.all(['root', 'audit', 'log'].map((role) => createIdentity(role, role)));
    if (!root || !audit || !log) throw new Error('no identities');
    held.identities = { root, audit, log };
    held.postgres = await startPostgres({ dataDir: path.join(folder, 'postgres'), settings: QUICK });
    held.nats = await startNats({
      dataDir: path.join(folder, 'nats'),
      configText: `authorization { users: [ { nkey: ${audit.publicKey} } ] }`,
    });
    const members = (['audit', 'log'] as const).map((role) => ({
      role,
      id: role,
      signKey: (role === 'audit' ? audit : log).publicKey,
      sealKey: (role === 'audit' ? audit : log).sealPublicKey,
    }));
    writeFileSync(path.join(folder, 'roster'), signRoster(await openIdentity(root), { version: 1, members }));
    for (const file of [audit, log])
      writeFileSync(path.join(folder, `${file.role}.json`), JSON.stringify(file), { mode: 0o600 });
  });

  afterAll(async () => {
    await held.nats?.stop();
    await held.postgres?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  beforeEach(async () => {
    held.url = await newDatabase(held.postgres?.url ?? '');
  });

  afterEach(async () => {
    for (const running of held.processes.splice(0)) await running.kill();
  });

  const suite: AuditSuite = {
    folder,
    get databaseUrl() {
      return held.url;
    },
    anotherDatabase: () => newDatabase(held.postgres?.url ?? ''),
    get nats() {
      if (!held.nats) throw new Error('runs only inside tests');
      return held.nats;
    },
    get identities() {
      if (!held.identities) throw new Error('runs only inside tests');
      return held.identities;
    },
    spawn: async (changes = {}, daysAgo = 0) => {
      const port = await freePort();
      const config = {
        logLevel: 'error',
        natsUrl: suite.nats.url,
        identityFile: path.join(folder, 'audit.json'),
        logIdentityFile: path.join(folder, 'log.json'),
        rootKey: suite.identities.root.publicKey,
        rosterFile: path.join(folder, 'roster'),
        databaseUrl: held.url,
        listen: { host: '127.0.0.1', port },
        logName: LOG_NAME,
        payloadKeyFolder: path.join(folder, `keys-${path.basename(held.url)}`),
        checkpointFile: path.join(folder, `checkpoint-${path.basename(held.url)}`),
        ...changes,
      };
      const file = path.join(folder, `config-${port}.json`);
      writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
      const main = new URL(daysAgo > 0 ? '../src/test/past-audit.ts' : '../src/main.ts', import.meta.url).pathname;
      const child = spawn(process.execPath, [main, String(daysAgo)], {
        env: { PATH: '/usr/bin:/bin', COUNTERSIGN_CONFIG: file },
        stdio: ['ignore', 'inherit', 'inherit'],
      });
      const running = new AuditProcess(child, port);
      held.processes.push(running);
      return running;
    },
    start: async (changes, daysAgo) => {
      const running = await suite.spawn(changes, daysAgo);
      await running.serving();
      return running;
    },
    verified: async (from, more = {}) => {
      const { dropped, leaves, checkpoint } = await from.exportLog();
      return verifyBundle({
        ...{ leaves: [...dropped, ...leaves], checkpoint, ...more },
        name: LOG_NAME,
        publicKey: rawPublicKey(suite.identities.log.publicKey),
        sha256,
        verifyEd25519: (key, message, signature) => {
          const spki = Buffer.concat([SPKI_ED25519, key]);
          return verify(null, message, createPublicKey({ key: spki, format: 'der', type: 'spki' }), signature);
        },
      });
    },
  };
  return suite;
}
