import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { asAccount, type RunAccount } from './run-account.ts';
import { refuse } from './sandbox-error.ts';

const ENTRY = path.resolve(fileURLToPath(import.meta.url), '../../sandbox-command.ts');
const RUN_AS = /^([1-9]\d{0,9})(?::([1-9]\d{0,9}))?$/;

async function namedAccount(): Promise<RunAccount> {
  const match = RUN_AS.exec(process.env.COUNTERSIGN_RUN_AS ?? '');
  const home = process.env.COUNTERSIGN_RUN_HOME;
  if (!match || !home) {
    return refuse(
      ERROR_CODES.badOwner,
      'nothing runs as root; set `COUNTERSIGN_RUN_AS` to `uid` or `uid:gid` of the account that owns the project, and ' +
        '`COUNTERSIGN_RUN_HOME` to a home folder of its own',
    );
  }
  const uid = Number(match[1]);
  const owner = (await stat(home).catch(() => undefined))?.uid;
  if (owner !== uid)
    refuse(ERROR_CODES.badOwner, `\`${home}\` does not belong to uid ${uid}; run \`chown ${uid}\` on it`);
  return { uid, gid: Number(match[2] ?? match[1]), home };
}

/** Runs the sandbox command again as the run account, with the same standard streams; gives its exit code. */
export async function becomeRunAccount(args: readonly string[]): Promise<number> {
  const account = await namedAccount();
  const [program, all] = asAccount(account, [process.execPath, ENTRY, ...args]);
  const { XDG_CACHE_HOME: _cache, XDG_STATE_HOME: _state, ...environment } = process.env;
  const child = spawn(program, all, { stdio: 'inherit', env: { ...environment, HOME: account.home } });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void child.kill(signal));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return code ?? 128 + (signal ? constants.signals[signal] : 0);
}
