import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeId } from '@countersign/kernel';
import {
  CallPayload,
  createIdentity,
  type Identity,
  type IdentityFile,
  openIdentity,
  type Roster,
  sealTo,
  signRoster,
} from '@countersign/protocol';
import { connectNats, isServing, type NatsConnection } from '@countersign/service-kit';
import {
  type EmbeddedNats,
  type EmbeddedPostgres,
  freePort,
  startNats,
  startPostgres,
} from '@countersign/service-kit/embedded';
import { pino } from 'pino';
import type { Role } from '../access/principal.ts';
import type { View } from '../calls/view.ts';
import { type GatewayConfig, gatewayConfigSchema } from '../config.ts';
import { AuditLog } from '../record/audit-log.ts';
import { callEntry, json } from '../record/entries.ts';
import { startGateway } from '../service.ts';

const NAMES = ['root', 'gateway', 'control', 'audit', 'log'] as const;
type Name = (typeof NAMES)[number];

export type TestToken = { readonly name: string; readonly role: Role; readonly groups?: readonly string[] };

/** What a waiting call of a test is about. */
export type CallFacts = {
  readonly agent?: string;
  readonly session?: string;
  readonly host?: string;
  readonly tool?: string;
  readonly action?: string;
  readonly summary?: string;
  readonly queue?: string;
  readonly principal?: string;
  readonly view?: Partial<View>;
  readonly deadlineMs?: number;
  readonly executor?: 'agent';
};

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** A broker, a database, the audit service as a process of its own, and gateways of this process with a clock of the test. */
export class ControlPlane {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'gateway-'));
  readonly files = {} as Record<Name, IdentityFile>;
  readonly tokens = new Map<string, string>();
  root!: Identity;
  roster!: Roster;
  audit!: AuditLog;
  gateway!: Awaited<ReturnType<typeof startGateway>>;
  /** Milliseconds that passed at once, for everybody. */
  aheadMs = 0;
  /** Milliseconds by which the gateway's clock is set wrong. */
  wrongByMs = 0;
  readonly now = (): number => Date.now() + this.aheadMs + this.wrongByMs;
  private nats!: EmbeddedNats;
  private postgres!: EmbeddedPostgres;
  private auditAddress = '';
  private child: ChildProcess | undefined;

  async start(tokens: readonly TestToken[], changes: Partial<GatewayConfig> = {}): Promise<void> {
    for (const name of NAMES) this.files[name] = await createIdentity(name, name);
    this.root = await openIdentity(this.files.root);
    const members = (['gateway', 'control', 'audit', 'log'] as const).map((role) => {
      const { id, publicKey: signKey, sealPublicKey: sealKey } = this.files[role];
      return { role, id, signKey, sealKey };
    });
    this.roster = { version: 1, members };
    writeFileSync(this.file('roster'), signRoster(this.root, this.roster));
    for (const name of NAMES)
      writeFileSync(this.file(`${name}.json`), JSON.stringify(this.files[name]), { mode: 0o600 });
    const users = ['gateway', 'audit'].map((name) => ({ nkey: this.files[name as Name].publicKey }));
    const configText = `authorization: ${JSON.stringify({ users })}`;
    [this.nats, this.postgres] = await Promise.all([
      startNats({ dataDir: this.file('nats'), configText }),
      startPostgres({ dataDir: this.file('postgres') }),
    ]);
    await this.startAudit();
    for (const { name } of tokens) this.tokens.set(name, `cst_${randomBytes(24).toString('hex')}`);
    await this.startGateway(tokens, changes);
    this.audit = new AuditLog(this.auditAddress, () => undefined);
  }

  async stop(): Promise<void> {
    await this.gateway?.stop();
    this.audit?.close();
    this.child?.kill('SIGKILL');
    await this.nats?.stop();
    await this.postgres?.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Starts a gateway on the same record; the one before must have been stopped, or goes on beside it. */
  async startGateway(tokens: readonly TestToken[], changes: Partial<GatewayConfig> = {}): Promise<void> {
    const config = gatewayConfigSchema.parse({
      logLevel: 'fatal',
      natsUrl: this.nats.url,
      identityFile: this.file('gateway.json'),
      rootKey: this.files.root.publicKey,
      rosterFile: this.file('roster'),
      auditAddress: this.auditAddress,
      guardianAddress: '127.0.0.1:1',
      http: { host: '127.0.0.1', port: 0 },
      controlIdentityFile: this.file('control.json'),
      deskDir: this.file('no-desk'),
      tokens: tokens.map(({ name, role, groups }) => ({
        name,
        role,
        groups: groups ?? [],
        sha256: digest(this.tokens.get(name) ?? ''),
      })),
      policy: { permissions: {}, ceilings: {}, security: {} },
      ...changes,
    });
    this.gateway = await startGateway(config, pino({ level: config.logLevel }), {
      now: this.now,
      passedMs: () => this.aheadMs,
    });
  }

  get address(): string {
    return `http://127.0.0.1:${this.gateway.port}`;
  }

  /** Asks the gateway with the token of that name, or without credentials. */
  request(method: string, route: string, options: { as?: string; body?: object; headers?: object } = {}) {
    const { as, body, headers } = options;
    return fetch(new URL(route, this.address), {
      method,
      redirect: 'manual',
      headers: {
        ...(as === undefined ? {} : { authorization: `Bearer ${this.tokens.get(as) ?? as}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /** Puts a waiting call into the record, as a gateway would, and returns its id. */
  async pendingCall(facts: CallFacts = {}): Promise<string> {
    const nowMs = this.now();
    const callId = makeId('call', nowMs, randomBytes);
    const payload = CallPayload.encode({ salt: randomBytes(32), arguments: json({ path: 'notes.txt' }) }).finish();
    const view: View = {
      reasons: ['test'],
      project: '/srv/project',
      profile: 'read-only',
      obligations: { deny_read: [], deny_write: [], timeout_ms: 1_000, hosts: [], environment: [] },
      preconditions: [],
      chain: [],
      offers: {},
      ...facts.view,
    };
    const reply = await this.audit.append({
      call: {
        callId,
        agent: facts.agent ?? 'agt',
        sessionId: facts.session ?? 'ses_1',
        host: facts.host ?? 'local',
        tool: facts.tool ?? 'write',
        action: facts.action ?? 'write',
        summary: facts.summary ?? 'write notes.txt',
        callDigest: randomBytes(32),
        deadlineMs: BigInt(facts.deadlineMs ?? nowMs + 3_600_000),
        queue: facts.queue ?? 'default',
        principal: facts.principal ?? 'somebody',
        executor: facts.executor ?? '',
        sealedPayload: await sealTo(this.files.control.sealPublicKey, payload, callId),
      },
      view: json(view),
      entries: [
        callEntry({ callId, type: 'call.received', toState: 'received', nowMs }),
        callEntry({ callId, type: 'approval.requested', toState: 'pending', nowMs }),
      ],
    });
    if (reply.refusal) throw new Error(reply.refusal.message);
    return callId;
  }

  /** A line to the broker, to hear what gateways tell hosts. */
  connect(): Promise<NatsConnection> {
    const { seed } = this.files.audit;
    return connectNats({ url: this.nats.url, seed: () => seed, name: 'test', inboxPrefix: '_INBOX_test' });
  }

  /** Every entry of the record, parsed. */
  async entries(): Promise<Record<string, unknown>[]> {
    const found: Record<string, unknown>[] = [];
    for await (const chunk of this.audit.exportLog())
      for (const leaf of chunk.leaves) found.push(JSON.parse(new TextDecoder().decode(leaf)));
    return found;
  }

  file(name: string): string {
    return path.join(this.folder, name);
  }

  private async startAudit(): Promise<void> {
    const port = await freePort();
    this.auditAddress = `127.0.0.1:${port}`;
    const file = this.file('audit-config.json');
    const config = {
      logLevel: 'error',
      natsUrl: this.nats.url,
      identityFile: this.file('audit.json'),
      logIdentityFile: this.file('log.json'),
      rootKey: this.files.root.publicKey,
      rosterFile: this.file('roster'),
      databaseUrl: this.postgres.url,
      listen: { host: '127.0.0.1', port },
      logName: 'countersign/test',
      payloadKeyFolder: this.file('payload-keys'),
    };
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    const entry = path.join(import.meta.dirname, '../../../audit/src/main.ts');
    this.child = spawn(process.execPath, [entry], {
      env: { PATH: '/usr/bin:/bin', COUNTERSIGN_CONFIG: file },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    for (const untilMs = Date.now() + 30_000; !(await isServing(this.auditAddress)); await delay(50))
      if (Date.now() > untilMs) throw new Error('the audit service did not start');
  }
}
