import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, openSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';

/** What nobody inside may read. */
export const SECRET = `sekret-${crypto.randomUUID()}`;

/** Files below `private/` of an installation, and beside it, by what they hold. */
const STATE_FILES = [
  ...['root', 'gateway', 'control', 'audit', 'log', 'host-local', 'agent-sample'].map((name) => `keys/${name}.json`),
  ...[
    'keys/payload/00001.key',
    'payload-master.key',
    'roster.bin',
    'log-checkpoint',
    'tokens.json',
    'database-password',
  ],
  ...['journal.jsonl', 'journal.jsonl.log-checkpoint', 'journal.jsonl.approvers', 'enrolment-tokens.json'],
  ...['config/gateway.json', 'config/runner.json', 'config/audit.json', 'config/nats.conf', 'tls/gateway.key'],
  ...['jetstream/jetstream/account/streams/CALLS/msgs/1.blk', 'logs/gateway.log', 'run/processes.json'],
];

/** Folders and files of one account: its home with an installation's state, projects, and what lies outside of them. */
export class World {
  readonly base: string;
  readonly home: string;
  readonly project: string;
  readonly other: string;
  readonly outside: string;
  readonly temp: string;
  /** A copy of the running code's shape, writable by the account, in its cache. */
  readonly installation: string;
  readonly data: string;
  /** Files that hold the secret and belong to Countersign. */
  readonly secrets: readonly string[];
  readonly #ends: (() => void)[] = [];

  constructor(base: string) {
    this.base = base;
    const [home, project, other, outside, temp] = ['home', 'project', 'other', 'outside', 'temp'].map((name) =>
      this.folder(path.join(base, name)),
    ) as [string, string, string, string, string];
    this.home = home;
    this.project = project;
    this.other = other;
    this.outside = outside;
    this.temp = temp;
    this.installation = path.join(home, '.cache/tools/countersign');
    this.file(path.join(this.installation, 'apps/runner.ts'), 'ours\n');
    this.file(path.join(this.installation, 'node_modules/dependency/index.js'), 'ours\n');
    this.data = path.join(home, '.local/state/countersign/4f85a199a56c');
    this.file(path.join(this.data, 'projects/sample/notes.txt'), 'visible\n');
    this.file(path.join(outside, 'victim'), 'safe\n');
    this.file(path.join(other, 'plan.txt'));
    this.file(path.join(home, '.ssh/id_ed25519'));
    this.file(path.join(home, '.bash_history'));
    this.secrets = [
      ...STATE_FILES.map((name) => path.join(this.data, 'private', name)),
      path.join(this.data, 'database/cluster/global/1260'),
      path.join(home, '.config/countersign/token'),
    ].map((name) => this.file(name));
  }

  folder(name: string): string {
    mkdirSync(name, { recursive: true });
    return name;
  }

  /** Writes a file, with the secret unless something else is named; its folders are made. */
  file(name: string, content: string = `${SECRET}\n`): string {
    const full = path.resolve(this.project ?? '/', name);
    this.folder(path.dirname(full));
    writeFileSync(full, content);
    return full;
  }

  link(name: string, target: string): void {
    const full = path.resolve(this.project, name);
    this.folder(path.dirname(full));
    symlinkSync(target, full);
  }

  /** Variables of the account. */
  environment(): Record<string, string> {
    return { PATH: process.env.PATH ?? '', HOME: this.home, TMPDIR: this.temp, LANG: 'C.UTF-8' };
  }

  /** A process of ours with the secret in its variables and an open journal. */
  service(): ChildProcess {
    const journal = openSync(path.join(this.data, 'private/journal.jsonl'), 'a+');
    const env = { SERVICE_TOKEN: SECRET };
    const child = spawn('/bin/sleep', ['300'], {
      cwd: path.join(this.data, 'private'),
      env,
      stdio: ['ignore', 'ignore', 'ignore', journal],
    });
    this.#ends.push(() => child.kill('SIGKILL'));
    return child;
  }

  /** A socket of ours in the private folder. */
  async listen(): Promise<string> {
    const file = path.join(this.data, 'private/run/s');
    const server = createServer((peer) => peer.end(SECRET));
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(file, resolve));
    this.#ends.push(() => server.close());
    return file;
  }

  end(): void {
    for (const end of this.#ends) end();
    spawnSync('/bin/chmod', ['-R', 'u+rwX', this.base]);
    rmSync(this.base, { recursive: true, force: true });
  }
}
