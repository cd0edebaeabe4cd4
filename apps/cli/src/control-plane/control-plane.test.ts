import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { appendFileSync, chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type EmbeddedPostgres, freePort, startPostgres } from '@countersign/service-kit/embedded';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { installationPath } from '../embedded/data-folder.ts';

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;
const LIMIT_MS = 60_000;
const RUN_UID = 61_183;

const folder = mkdtempSync(path.join(isRoot ? '/var/lib' : homedir(), 'countersign-control-plane-'));
const at = (...parts: string[]) => path.join(folder, ...parts);
const certificate = { cert: at('broker-cert.pem'), key: at('broker-key.pem') };
const environment = { ...process.env, NODE_EXTRA_CA_CERTS: certificate.cert };
const children: ChildProcess[] = [];
let postgres: EmbeddedPostgres;
let http: number;

type Ended = { code: number; stdout: string; stderr: string };
const MAIN = path.join(installationPath(), 'apps/cli/src/main.ts');
const ADMIN = ['--connection', at('etc/operator/connection.json')];

/** Runs the command line as an operator of another machine would: with a connection, without a data folder. */
const countersign = (...args: string[]): Promise<Ended> =>
  run(process.execPath, [MAIN, ...args], { env: environment }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout: stdout.trim(), stderr }),
    (error: Ended) => ({ code: error.code, stdout: error.stdout.trim(), stderr: error.stderr }),
  );

/** A process that is started again when it ends, as systemd does it. */
function keepRunning(command: string, args: readonly string[], env: NodeJS.ProcessEnv = environment): void {
  const child = spawn(command, args, { env, stdio: 'ignore' });
  const place = children.push(child) - 1;
  child.once('exit', () => {
    if (children[place] === child) setTimeout(() => children[place] === child && keepRunning(command, args, env), 250);
  });
}

const service = (app: string, config: string) =>
  keepRunning(process.execPath, [path.join(installationPath(), 'apps', app, 'src/main.ts')], {
    ...environment,
    COUNTERSIGN_CONFIG: config,
  });

function makeCertificate(): void {
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const files = ['-keyout', certificate.key, '-out', certificate.cert];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ed25519', '-nodes', '-days', '2', ...files, ...subject], {
    stdio: 'ignore',
  });
}

beforeAll(async () => {
  chmodSync(folder, 0o711);
  makeCertificate();
  for (const name of ['state', 'state/audit', 'state/guardian', 'state/broker']) mkdirSync(at(name));
  postgres = await startPostgres({ dataDir: at('database') });
  appendFileSync(at('database-url'), postgres.url, { mode: 0o600 });
  http = await freePort();
  const [broker, audit, guardian] = [await freePort(), await freePort(), await freePort()];
  const made = await countersign(
    ...['control-plane', 'init', '--out', at('etc'), '--state', at('state'), '--database-file', at('database-url')],
    ...['--public-url', `http://localhost:${http}`, '--broker', `tls://localhost:${broker}`],
    ...['--broker-cert', certificate.cert, '--broker-key', certificate.key],
    ...['--http-port', `${http}`, '--audit-port', `${audit}`, '--guardian-port', `${guardian}`],
  );
  expect(made).toMatchObject({ code: 0 });
  keepRunning('nats-server', ['-c', at('etc/broker/nats.conf')], {
    ...environment,
    PATH: `/usr/sbin:${process.env.PATH}`,
  });
  service('audit', at('etc/audit/config.json'));
  service('guardian', at('etc/guardian/config.json'));
  service('gateway', at('etc/gateway/config.json'));
  const accounts = ['--out', at('etc/broker/accounts.conf'), '--pid-file', at('state/broker/nats-server.pid')];
  const follow = ['--connection', at('etc/broker/connection.json'), 'control-plane', 'broker-accounts', '--follow'];
  keepRunning(process.execPath, [MAIN, ...follow, ...accounts]);
  await vi.waitFor(async () => expect(await countersign('doctor', ...ADMIN)).toMatchObject({ code: 0 }), {
    timeout: LIMIT_MS,
    interval: 500,
  });
}, 120_000);

afterAll(async () => {
  const all = children.splice(0);
  for (const child of all) child.kill('SIGTERM');
  await Promise.all(
    all.map((child) => child.exitCode ?? child.signalCode ?? new Promise((resolve) => child.once('exit', resolve))),
  );
  await postgres?.stop();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

function makeProject(): string {
  const [project, home] = [at('project'), at('home')];
  for (const made of [project, home]) {
    mkdirSync(made, { mode: 0o755 });
    if (isRoot) chownSync(made, RUN_UID, RUN_UID);
  }
  return project;
}

async function enrol(role: 'runner' | 'agent', id: string, facts: readonly string[], more: readonly string[] = []) {
  const invitation = at(`${id}.invitation`);
  const invited = await countersign(role, 'invite', id, '--principal', 'ops', ...facts, '--out', invitation, ...ADMIN);
  expect(invited).toMatchObject({ code: 0 });
  const to = ['--gateway', `http://localhost:${http}`, '--invitation', invitation, '--out', at(id)];
  expect(await countersign(role, 'enroll', id, ...to, ...more)).toMatchObject({ code: 0 });
}

test('every file of keys and tokens is closed to others, and a service has no key of another', () => {
  const files = execFileSync('find', [at('etc'), '-type', 'f', '-printf', '%m %P\n'], { encoding: 'utf8' });
  const open = files.split('\n').filter((line) => line !== '' && !line.startsWith('600 '));
  expect(open).toEqual(['644 policy.yaml']);
  expect(statSync(at('etc/root')).mode & 0o777).toBe(0o700);
  const holds = (secret: string) =>
    execFileSync('grep', ['-rlF', secret, at('etc')], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .sort();
  const seedOf = (file: string) => (JSON.parse(readFileSync(at('etc', file), 'utf8')) as { seed: string }).seed;
  for (const file of [
    'root/root.json',
    'audit/audit.json',
    'audit/log.json',
    'gateway/gateway.json',
    'gateway/control.json',
  ])
    expect(holds(seedOf(file))).toEqual([at('etc', file)]);
  for (const part of ['audit', 'guardian', 'gateway']) {
    const [, line = ''] = readFileSync(at('etc', part, 'grpc-key.pem'), 'utf8').split('\n');
    expect(holds(line.slice(-40))).toEqual([at('etc', part, 'grpc-key.pem')]);
  }
});

test('a host and an agent join over TLS, a call runs, and the log verifies with the keys of the connection', async () => {
  const project = makeProject();
  await enrol('runner', 'web-1', [], isRoot ? ['--run-as', `${RUN_UID}:${RUN_UID}:${at('home')}`] : []);
  service('sandbox-runner', at('web-1/runner.json'));
  await enrol('agent', 'coder', ['--host', 'web-1', '--root', `web-1=${project}`, '--tool', 'bash', 'write']);
  const agent = ['--agent', at('coder/agent.json')];
  const open = () => countersign('session', 'open', '--project', project, '--host', 'web-1', ...agent);
  await expect.poll(async () => (await open()).code, { timeout: LIMIT_MS, interval: 500 }).toBe(0);
  const session = (await open()).stdout;
  const called = countersign('call', 'bash', '{"command":"echo from afar"}', '--session', session, ...agent);
  const waiting = async () => {
    const { stdout } = await countersign('--json', 'approvals', 'list', ...ADMIN);
    return (JSON.parse(stdout) as { calls: { callId: string }[] }).calls;
  };
  await expect.poll(async () => (await waiting()).length, { timeout: LIMIT_MS, interval: 500 }).toBe(1);
  const callId = (await waiting())[0]?.callId ?? '';
  expect(await countersign('approvals', 'approve', callId, ...ADMIN)).toMatchObject({ code: 0 });
  expect(await called).toMatchObject({ code: 0, stdout: expect.stringContaining('from afar') });
  expect(await countersign('audit', 'export', '--out', at('log'), ...ADMIN)).toMatchObject({ code: 0 });
  const verified = await countersign('audit', 'verify', at('log'), ...ADMIN);
  expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('0 problems')]);
}, 120_000);

test('a login link goes to a file of its own and signs in once', async () => {
  const link = at('login-link');
  expect(await countersign('login-link', ...ADMIN)).toMatchObject({ code: 2, stdout: '' });
  expect(await countersign('login-link', '--out', link, ...ADMIN)).toMatchObject({ code: 0 });
  expect(statSync(link).mode & 0o777).toBe(0o600);
  const open = async () => (await fetch(readFileSync(link, 'utf8').trim(), { redirect: 'manual' })).headers;
  expect((await open()).get('set-cookie')).toContain('HttpOnly');
  expect((await open()).get('set-cookie')).toBeNull();
});

test('wrong credentials behind the proxy count against their sender, not against the proxy', async () => {
  const status = async (from: string, token: string) => {
    const headers = { authorization: `Bearer ${token}`, 'x-forwarded-for': from };
    return (await fetch(`http://127.0.0.1:${http}/v1/hosts`, { headers })).status;
  };
  for (let wrong = 0; wrong < 5; wrong += 1) expect(await status('203.0.113.9', 'cst_wrong')).toBe(401);
  const token = readFileSync(at('etc/operator/token'), 'utf8').trim();
  expect([await status('203.0.113.9', token), await status('203.0.113.10', token)]).toEqual([429, 200]);
});

test.each([
  ['an open token file', { mode: 0o644 }, 'is open to others'],
  ['an address without TLS', { gateway: 'http://approvals.example.org' }, 'would carry the token in the clear'],
  ['a field that it does not know', { tokn: 'x' }, 'is not valid'],
  ['a root key without a roster', { rosterFile: undefined }, 'belong together'],
] as const)('a connection with %s is refused', async (_title, change, said) => {
  const token = at(`token-${said.length}`);
  appendFileSync(token, 'cst_x', { mode: 0o600 });
  const { mode = 0o600, ...fields } = { mode: 0o600, ...change };
  chmodSync(token, mode);
  const base = JSON.parse(readFileSync(at('etc/operator/connection.json'), 'utf8')) as object;
  const connection = at(`connection-${said.length}.json`);
  const rosterFile = at('etc/operator/roster.bin');
  appendFileSync(connection, JSON.stringify({ ...base, tokenFile: token, rosterFile, ...fields }));
  const refused = await countersign('approvals', 'list', '--connection', connection);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(said)]);
});
