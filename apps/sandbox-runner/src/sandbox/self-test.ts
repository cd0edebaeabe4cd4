import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { diagnose } from '@countersign/sandbox';
import { refuseHostRoot } from './account.ts';
import { type BashOutcome, runBash } from './execute.ts';
import { findPlaces } from './find-places.ts';
import { hostSigns } from './host-signs.ts';
import { refusalOf } from './sandbox-error.ts';

export type SelfTestCheck = { readonly name: string; readonly ok: boolean; readonly detail: string };

export type SelfTestReport = {
  readonly ok: boolean;
  /** Why the sandbox cannot be used; empty when it holds. */
  readonly reason: string;
  readonly checks: readonly SelfTestCheck[];
};

export type SelfTestOptions = {
  readonly installation: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
};

const TIMEOUT_MS = 20_000;

/** Each canary prints its name when the sandbox let it through. */
const CANARIES: Readonly<Record<string, string>> = {
  'outside-write': 'echo x > "$1/../canary"',
  'home-write': 'echo x > "$HOME/.countersign-canary"',
  'git-write': 'mkdir .git/hooks',
  'set-user-namespace': '/usr/bin/unshare --user /bin/true',
  'see-other-processes': '[ -d "/proc/$2" ] && grep -q "$3" "/proc/$2/cmdline"',
  environment: 'env | grep -q COUNTERSIGN_CANARY',
  privileges: '! grep -q "^NoNewPrivs:.1" /proc/self/status',
  'kernel-settings': 'echo x >> /proc/sys/kernel/core_pattern',
};

const SOCKETS = `const net = require('net');
for (const [name, target] of [['unix-socket', { path: process.argv[1] }], ['network', { port: +process.argv[2], host: '127.0.0.1' }]])
  net.connect(target).on('connect', () => { console.log('LEAK', name); process.exit(); }).on('error', () => {});`;

function script(): string {
  const canaries = Object.entries(CANARIES).map(([name, text]) => `( ${text} ) 2>/dev/null && echo LEAK ${name}`);
  return [...canaries, '"$4" -e "$5" "$6" "$7" 2>/dev/null', 'echo DONE'].join('\n');
}

function reasonOf(outcome: BashOutcome): string {
  if (outcome.kind !== 'sandbox_failed') return '';
  if (!/bubblewrap|bwrap/i.test(outcome.reason)) return outcome.reason;
  const { cause, fix } = diagnose(outcome.reason, hostSigns());
  return cause === outcome.reason ? `${cause}; ${fix}` : `${cause}; ${fix} (${outcome.reason})`;
}

async function listen(target: string | number): Promise<{ port: number; close: () => void }> {
  const server = createServer((socket) => socket.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  if (typeof target === 'string') server.listen(target, resolve);
  else server.listen(target, '127.0.0.1', resolve);
  await promise;
  const address = server.address();
  return { port: typeof address === 'object' && address ? address.port : 0, close: () => void server.close() };
}

async function runCanaries(options: SelfTestOptions, folder: string): Promise<BashOutcome> {
  const socket = path.join(folder, 'canary.sock');
  const unix = await listen(socket);
  const tcp = await listen(0);
  const title = (await readFile('/proc/self/cmdline', 'utf8')).split('\0')[0] ?? '';
  try {
    const values = [folder, String(process.pid), title, process.execPath, SOCKETS, socket, String(tcp.port)];
    return await runBash({
      ...options,
      command: ['/bin/sh', '-c', script(), 'sh', ...values],
      project: folder,
      profile: 'workspace-write',
      scratch: true,
      masks: [],
      environment: { ...options.environment, COUNTERSIGN_CANARY: 'x' },
      timeoutMs: TIMEOUT_MS,
    });
  } finally {
    unix.close();
    tcp.close();
  }
}

function report(outcome: BashOutcome): SelfTestReport {
  const text = Buffer.from(outcome.stdout).toString('utf8');
  const ran = outcome.kind === 'exited' && text.includes('DONE');
  const started = { name: 'command runs', ok: ran, detail: ran ? '' : reasonOf(outcome) || outcome.kind };
  const leaked = new Set([...text.matchAll(/^LEAK (\S+)$/gm)].map((match) => match[1]));
  const names = [...Object.keys(CANARIES), 'unix-socket', 'network'];
  const checks = [started, ...names.map((name) => ({ name, ok: ran && !leaked.has(name), detail: '' }))];
  const broken = checks.filter(({ ok }) => !ok);
  const reason = started.detail || (broken.length > 0 ? `canaries got through: ${[...leaked].join(', ')}` : '');
  return { ok: broken.length === 0, reason, checks };
}

/** Runs canaries in a sandbox with the full arguments, as the account of this process. Never rejects. */
export async function selfTest(options: SelfTestOptions): Promise<SelfTestReport> {
  let folder: string | undefined;
  const home = options.environment.HOME ?? '/';
  try {
    refuseHostRoot();
    folder = await mkdtemp(path.join(home, '.countersign-self-test-'));
    await findPlaces({ ...options, project: folder, profile: 'workspace-write' });
    return report(await runCanaries(options, folder));
  } catch (error) {
    const reason = refusalOf(error).message;
    return { ok: false, reason, checks: [{ name: 'command runs', ok: false, detail: reason }] };
  } finally {
    const left = [...(folder ? [folder, path.join(folder, '../canary')] : []), path.join(home, '.countersign-canary')];
    for (const each of left) await rm(each, { recursive: true, force: true }).catch(() => undefined);
  }
}
