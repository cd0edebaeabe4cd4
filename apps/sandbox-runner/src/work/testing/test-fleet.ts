import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { formatCheckpoint, formatSignedNote, noteKeyId } from '@countersign/merkle';
import {
  Beat,
  CallPayload,
  callDigest,
  canonicalEnvelope,
  consumers,
  createIdentity,
  EnvelopeKind,
  Heartbeat,
  type Identity,
  type IdentityFile,
  Outcome,
  openEnvelope,
  openIdentity,
  type Receipt,
  rawPublicKey,
  SignedEnvelope,
  STREAMS,
  sealTo,
  signEnvelope,
  signReceipt,
  signRoster,
  subjects,
  ToolResult,
  termsDigest,
  WorkOrder,
} from '@countersign/protocol';
import { connectNats, inboxPrefix, type NatsConnection } from '@countersign/service-kit';
import { type EmbeddedNats, startNats } from '@countersign/service-kit/embedded';
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from '@nats-io/jetstream';
import type { RunnerConfig } from '../../config.ts';

export const HOST = 'local';
const WORK = subjects.work(HOST);
const CHILD = path.join(import.meta.dirname, 'runner-child.ts');

export type OrderChange = {
  readonly tool?: string;
  readonly args?: object;
  readonly order?: Partial<WorkOrder>;
  readonly receipt?: Partial<Receipt> | null;
  readonly receiptSigner?: Identity;
  readonly envelopeSigner?: Identity;
  readonly envelopeSubject?: string;
};

export type SeenOutcome = {
  readonly outcome: Outcome;
  readonly states: readonly string[];
  readonly result: ToolResult | undefined;
};

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

const NAMES = ['root', 'gateway', 'audit', 'log', 'control', 'host', 'stranger'] as const;
type Name = (typeof NAMES)[number];
type Keys = Record<Name, Identity>;

/** The permissions that the product's own broker configuration gives to a host, and everything for the tests' gateway. */
function brokerUsers(keys: Keys): string {
  const prefix = (role: string, id: string) => `${inboxPrefix(role, id)}.>`;
  const host = {
    publish: {
      allow: [
        subjects.outcome(HOST),
        `cs.v1.output.${HOST}.>`,
        subjects.heartbeat(HOST),
        subjects.proof(HOST),
        `$JS.API.CONSUMER.MSG.NEXT.${STREAMS.work}.${consumers.work(HOST)}`,
        `$JS.API.CONSUMER.INFO.${STREAMS.work}.${consumers.work(HOST)}`,
        `$JS.ACK.${STREAMS.work}.${consumers.work(HOST)}.>`,
      ],
    },
    subscribe: {
      allow: [
        ...[subjects.inspect(HOST), subjects.control(HOST), subjects.beat(), subjects.roster(), subjects.approvers()],
        prefix('host', HOST),
      ],
    },
    allow_responses: { max: 1, expires: '60s' },
  };
  const users = [
    { nkey: keys.gateway.publicKey, permissions: { publish: '>', subscribe: '>' } },
    { nkey: keys.host.publicKey, permissions: host },
  ];
  return `authorization: ${JSON.stringify({ users })}`;
}

/** A broker, a control plane played by the test with real keys, and runners of one host. */
export class TestFleet {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'runner-'));
  readonly marker = path.join(this.folder, 'marker');
  keys!: Keys;
  gateway!: NatsConnection;
  beating = true;
  beatAgeMs = 0;
  readonly seen: SeenOutcome[] = [];
  private nats!: EmbeddedNats;
  private brokerConfig = '';
  private sequence = BigInt(Date.now());
  private timer: NodeJS.Timeout | undefined;
  private readonly children: ChildProcess[] = [];

  async start(options: { noAck?: boolean } = {}): Promise<void> {
    const files = {} as Record<Name, IdentityFile>;
    for (const name of NAMES) files[name] = await createIdentity(name, name === 'host' ? HOST : name);
    const opened = await Promise.all(NAMES.map(async (name) => [name, await openIdentity(files[name])] as const));
    this.keys = Object.fromEntries(opened) as Keys;
    const member = (role: 'gateway' | 'audit' | 'log' | 'control') => {
      const { publicKey: signKey, sealPublicKey: sealKey } = files[role];
      return { role, id: role, signKey, sealKey };
    };
    const members = [member('gateway'), member('audit'), member('log'), member('control')];
    writeFileSync(path.join(this.folder, 'roster'), signRoster(this.keys.root, { version: 1, members }));
    writeFileSync(path.join(this.folder, 'host.json'), JSON.stringify(files.host), { mode: 0o600 });
    this.brokerConfig = brokerUsers(this.keys);
    await this.startBroker();
    const { seed } = this.keys.gateway;
    this.gateway = await connectNats({ url: this.nats.url, seed, name: 'test', inboxPrefix: '_INBOX_gateway_gateway' });
    await this.makeStreams(options.noAck ?? false);
    this.timer = setInterval(() => this.beat(), 200);
    void this.collect();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    for (const child of this.children) child.kill('SIGKILL');
    await this.gateway.close();
    await this.nats.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  config(): RunnerConfig {
    return {
      logLevel: 'fatal',
      natsUrl: this.nats.url,
      identityFile: path.join(this.folder, 'host.json'),
      rootKey: this.keys.root.publicKey,
      rosterFile: path.join(this.folder, 'roster'),
      host: HOST,
      journalFile: path.join(this.folder, 'journal.jsonl'),
      runAs: null,
      masks: ['/masked'],
      installation: '/installation',
      accept: [],
      pinsFile: path.join(this.folder, 'pins.json'),
      maxRunning: 2,
      maxBackground: 2,
      limits: {},
      hooks: { before: [], after: [] },
      minFreeBytes: 0,
    };
  }

  /** Starts a runner as a process of its own and waits until it says that it is ready. */
  async spawnRunner(): Promise<ChildProcess> {
    const file = path.join(this.folder, 'runner.json');
    writeFileSync(file, JSON.stringify(this.config()), { mode: 0o600 });
    const startedAtMs = BigInt(Date.now());
    const heartbeats = this.gateway.subscribe(subjects.heartbeat(HOST));
    const child = spawn(process.execPath, [CHILD], { env: { COUNTERSIGN_CONFIG: file }, stdio: 'inherit' });
    this.children.push(child);
    for await (const { data } of heartbeats) {
      const heartbeat = Heartbeat.decode(SignedEnvelope.decode(data).body);
      if (heartbeat.ready && heartbeat.atMs >= startedAtMs) break;
    }
    return child;
  }

  async stopBroker(): Promise<void> {
    await this.nats.stop();
  }

  /** Starts the broker, on the port and with the store it had before. */
  async startBroker(): Promise<void> {
    const port = this.nats ? { port: this.nats.port } : {};
    const dataDir = path.join(this.folder, 'nats');
    this.nats = await startNats({ dataDir, configText: this.brokerConfig, ...port });
  }

  beat(): void {
    if (!this.beating || this.gateway.isClosed()) return;
    const nowMs = Date.now() - this.beatAgeMs;
    this.sequence += 1n;
    const body = Beat.encode(Beat.fromPartial({ atMs: BigInt(nowMs), checkpoint: this.checkpoint() })).finish();
    const subject = subjects.beat();
    const message = { kind: EnvelopeKind.BEAT, subject, body, nowMs, sequence: this.sequence };
    this.gateway.publish(subject, signEnvelope(this.keys.audit, message));
  }

  /** The signed note of a log of one entry that never grows. */
  private checkpoint(): string {
    const text = formatCheckpoint({ origin: 'test', size: 1, root: new Uint8Array(32) });
    const keyId = noteKeyId(sha256, 'test', rawPublicKey(this.keys.log.publicKey));
    const signature = this.keys.log.sign(new TextEncoder().encode(text));
    return formatSignedNote(text, [{ name: 'test', keyId, signature }]);
  }

  /** Builds an order that is good but for `change`; returns it with the bytes of its envelope. */
  async order(change: OrderChange = {}): Promise<{ order: WorkOrder; bytes: Uint8Array }> {
    const tool = change.tool ?? 'bash';
    const args = change.args ?? { command: `echo ran >> ${this.marker}` };
    const orderId = `ord_${randomUUID().replaceAll('-', '')}`;
    const callId = `call_${randomUUID().replaceAll('-', '')}`;
    const facts = { agent: 'agt', callId, sessionId: 'ses_1', tool, executor: 'runner', deadlineMs: 0 };
    const canonical = canonicalEnvelope(facts);
    const payload = { salt: randomBytes(32), arguments: new TextEncoder().encode(JSON.stringify(args)) };
    const digest = callDigest(payload.salt, payload.arguments, canonical);
    const { sealPublicKey } = this.keys.host;
    const bare = WorkOrder.fromPartial({
      ...{ orderId, callId, agent: 'agt', sessionId: 'ses_1', host: HOST, tool, project: this.folder },
      profile: 'workspace-write',
      callDigest: digest,
      expiresAtMs: BigInt(Date.now() + 60_000),
      sealedPayload: await sealTo(sealPublicKey, CallPayload.encode(payload).finish(), orderId),
      canonicalEnvelope: canonical,
      ...change.order,
    });
    const receipt = signReceipt(change.receiptSigner ?? this.keys.audit, {
      callId,
      orderId,
      host: HOST,
      callDigest: digest,
      entryId: 'ent_1',
      logIndex: 1n,
      leafHash: randomBytes(32),
      decidedBy: 'human',
      assertionsDigest: new Uint8Array(),
      termsDigest: termsDigest(bare),
      ...change.receipt,
    });
    const order: WorkOrder = change.receipt === null ? bare : { ...bare, receipt };
    const subject = change.envelopeSubject ?? WORK;
    const body = WorkOrder.encode(order).finish();
    const signer = change.envelopeSigner ?? this.keys.gateway;
    return { order, bytes: signEnvelope(signer, { kind: EnvelopeKind.ORDER, subject, body, nowMs: Date.now() }) };
  }

  async publish(bytes: Uint8Array): Promise<void> {
    await jetstream(this.gateway).publish(WORK, bytes);
  }

  async send(change: OrderChange = {}): Promise<WorkOrder> {
    const { order, bytes } = await this.order(change);
    await this.publish(bytes);
    return order;
  }

  outcomesOf(orderId: string): readonly SeenOutcome[] {
    return this.seen.filter(({ outcome }) => outcome.orderId === orderId);
  }

  /** The first outcome of an order. */
  async outcomeOf(orderId: string): Promise<SeenOutcome> {
    await until(() => this.outcomesOf(orderId).length > 0, `no outcome of ${orderId}`);
    return this.outcomesOf(orderId)[0] as SeenOutcome;
  }

  /** Resolves when the broker holds no order any more. */
  async workIsEmpty(): Promise<void> {
    const manager = await jetstreamManager(this.gateway);
    await until(async () => (await manager.streams.info(STREAMS.work)).state.messages === 0, 'orders are left');
  }

  private async makeStreams(noAck: boolean): Promise<void> {
    const manager = await jetstreamManager(this.gateway);
    const retention = RetentionPolicy.Workqueue;
    await manager.streams.add({ name: STREAMS.work, subjects: ['cs.v1.work.*'], retention });
    await manager.streams.add({ name: STREAMS.outcomes, subjects: ['cs.v1.outcome.*'], retention, no_ack: noAck });
    const common = { ack_policy: AckPolicy.Explicit, ack_wait: 2_000_000_000 };
    await manager.consumers.add(STREAMS.work, { ...common, durable_name: consumers.work(HOST), filter_subject: WORK });
    await manager.consumers.add(STREAMS.outcomes, { ...common, durable_name: consumers.gatewayOutcomes });
  }

  private async collect(): Promise<void> {
    while (!this.gateway.isClosed()) {
      try {
        const consumer = await jetstream(this.gateway).consumers.get(STREAMS.outcomes, consumers.gatewayOutcomes);
        const message = await consumer.next({ expires: 1_000 });
        if (message) this.seen.push(await this.read(message.data));
        message?.ack();
      } catch {
        await delay(100);
      }
    }
  }

  private async read(bytes: Uint8Array): Promise<SeenOutcome> {
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.OUTCOME,
      subject: subjects.outcome(HOST),
      issuer: this.keys.host.publicKey,
      nowMs: Date.now(),
    });
    if (!opened.ok) throw new TypeError(opened.error.code);
    const outcome = Outcome.decode(opened.value.body);
    const states = outcome.reports.map(({ state }) => state);
    const sealed = outcome.sealedResult;
    const plain = sealed.length > 0 ? await this.keys.control.open(sealed, outcome.orderId) : undefined;
    return { outcome, states, result: plain && ToolResult.decode(plain) };
  }
}

/** Resolves when `holds` does; rejects after 15 s. */
export async function until(holds: () => boolean | Promise<boolean>, otherwise: string): Promise<void> {
  const deadline = Date.now() + 15_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new TypeError(otherwise);
    await delay(25);
  }
}
