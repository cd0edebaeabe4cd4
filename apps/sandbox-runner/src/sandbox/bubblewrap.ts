import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import type { Architecture } from '@countersign/sandbox';
import { errnoOf, refuse } from './sandbox-error.ts';

export const BWRAP = '/usr/bin/bwrap';
const ISOLATE = ['/usr/bin/unshare', '--user', '--map-current-user', '--mount', '--propagation', 'private', '--'];
const run = promisify(execFile);

/** What the sandbox binary and this host offer. */
export type Bubblewrap = {
  readonly architecture: Architecture;
  readonly canDisableUserns: boolean;
  /** Program and arguments that come before those of bubblewrap. */
  readonly prefix: readonly string[];
};

const ARCHITECTURES: Readonly<Record<string, Architecture>> = { x64: 'x86-64', arm64: 'aarch64' };

async function helpText(): Promise<string> {
  try {
    return (await run(BWRAP, ['--help'], { env: {}, cwd: '/', timeout: 5_000 })).stdout;
  } catch (error) {
    const reason = errnoOf(error) === 'ENOENT' ? 'is not installed' : 'does not run';
    return refuse(ERROR_CODES.sandboxUnavailable, `\`${BWRAP}\` ${reason}; install bubblewrap 0.8 or newer`);
  }
}

/** SECURITY: where mounts propagate, a file system mounted on the host later would be writable inside. */
function propagatesMounts(): boolean {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  return mounts.split('\n').some((line) => / (shared|master):\d+/.test(line.split(' - ')[0] ?? ''));
}

type Known = { readonly stamp: string; readonly found: Omit<Bubblewrap, 'prefix'> };

/** What one version of the binary, told by its place on disk, times and size, was found to offer. */
function stampOf(): string {
  const found = statSync(BWRAP, { throwIfNoEntry: false, bigint: true });
  return found ? [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' ') : '';
}

const known: { binary?: Known } = {};

/** Looks at the binary and the host. Throws a SandboxRefusal where no sandbox can be had. */
export async function probeBubblewrap(): Promise<Bubblewrap> {
  if (process.platform !== 'linux') {
    refuse(ERROR_CODES.unimplemented, `there is no sandbox for \`${process.platform}\` yet; use Linux`);
  }
  const architecture = ARCHITECTURES[process.arch];
  if (!architecture) {
    return refuse(
      ERROR_CODES.sandboxUnavailable,
      `no system call filter for \`${process.arch}\`; use x86-64 or aarch64`,
    );
  }
  const stamp = stampOf();
  const prefix = propagatesMounts() ? ISOLATE : [];
  if (known.binary && known.binary.stamp === stamp && stamp !== '') return { ...known.binary.found, prefix };
  const help = await helpText();
  const missing = ['--json-status-fd', '--seccomp', '--remount-ro'].filter((option) => !help.includes(option));
  if (missing.length > 0) {
    refuse(
      ERROR_CODES.sandboxUnavailable,
      `\`${BWRAP}\` lacks \`${missing.join(' ')}\`; install bubblewrap 0.8 or newer`,
    );
  }
  const found = { architecture, canDisableUserns: help.includes('--disable-userns') };
  known.binary = { stamp, found };
  return { ...found, prefix };
}
