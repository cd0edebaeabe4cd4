import { createHash, randomInt } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { FaultError } from '@countersign/kernel';
import { z } from 'zod';

/** The account that commands run as when the product was started as root. */
export type RunAccount = { readonly uid: number; readonly gid: number };

/** Where one installation keeps its state. */
export type DataFolder = {
  readonly root: string;
  /** Mode 0700: keys, credentials, journal, databases. */
  readonly private: string;
  readonly keys: string;
  readonly config: string;
  /** Owned by the run account. */
  readonly sampleProject: string;
  readonly home: string;
  /** Null when started as an ordinary user: commands run as that user. */
  readonly runAccount: RunAccount | null;
  /** Mode 0700, owned by `databaseAccount`; PostgreSQL refuses to run as root and cannot enter `private/`. */
  readonly database: string;
  /** Account of PostgreSQL, another than the run account. Null when started as an ordinary user. */
  readonly databaseAccount: RunAccount | null;
};

/** Real path of the running installation: the repository's root. */
export const installationPath = (): string =>
  realpathSync(path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../..'));

/** The data folder of this installation when none is named. */
export function defaultDataFolder(): string {
  const id = createHash('sha256').update(installationPath()).digest('hex').slice(0, 12);
  if (process.getuid?.() === 0) return path.join('/var/lib/countersign', id);
  const state = process.env.XDG_STATE_HOME || path.join(homedir(), '.local/state');
  return path.join(state, 'countersign', id);
}

const RUN_AS = /^([1-9][0-9]{0,9})(?::([1-9][0-9]{0,9}))?$/;
const FIRST_UID = 61_184;
const LAST_UID = 65_519;

function unusedUid(others: readonly number[]): number {
  const taken = new Set(
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => Number(line.split(':')[2])),
  );
  for (let attempt = 0; attempt < 1_000; attempt += 1) {
    const uid = randomInt(FIRST_UID, LAST_UID + 1);
    if (!taken.has(uid) && !others.includes(uid)) return uid;
  }
  throw new FaultError(`no unused uid in ${FIRST_UID}–${LAST_UID}; set \`COUNTERSIGN_RUN_AS\` to a uid`, {
    code: 'countersign.cli.no_run_account',
  });
}

const accountSchema = z.strictObject({ uid: z.int().min(1), gid: z.int().min(1) });

/** `COUNTERSIGN_RUN_AS`, else the recorded uid, else an unused one that is recorded. Null for an ordinary user. */
function resolveRunAccount(root: string): RunAccount | null {
  if (process.getuid?.() !== 0) return null;
  const named = process.env.COUNTERSIGN_RUN_AS;
  if (named) {
    const match = RUN_AS.exec(named);
    if (!match) {
      throw new FaultError(`\`COUNTERSIGN_RUN_AS\` is not \`uid\` or \`uid:gid\` of an account other than root`, {
        code: 'countersign.cli.bad_run_account',
      });
    }
    return { uid: Number(match[1]), gid: Number(match[2] ?? match[1]) };
  }
  return recordedAccount(path.join(root, 'run-account.json'), []);
}

/** The account recorded in `file`, else an unused one other than `others`, recorded for the next start. */
function recordedAccount(file: string, others: readonly number[]): RunAccount {
  if (existsSync(file)) return accountSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  const uid = unusedUid(others);
  writeFileSync(file, `${JSON.stringify({ uid, gid: uid })}\n`, { mode: 0o644 });
  return { uid, gid: uid };
}

function makeOwned(folder: string, mode: number, account: RunAccount | null): void {
  if (existsSync(folder)) return;
  mkdirSync(folder, { mode });
  chmodSync(folder, mode);
  if (account) chownSync(folder, account.uid, account.gid);
}

const SAMPLE_FILES = {
  'README.md': '# Sample project\n\nTool calls of the sample agent run here.\n',
  'notes.txt': 'The agent may read this file.\n',
} as const;

function makeSampleProject(folder: string, account: RunAccount | null): void {
  if (existsSync(folder)) return;
  makeOwned(folder, 0o755, account);
  for (const [name, text] of Object.entries(SAMPLE_FILES)) {
    const file = path.join(folder, name);
    writeFileSync(file, text, { mode: 0o644 });
    if (account) chownSync(file, account.uid, account.gid);
  }
}

/**
 * Tells the sandboxes of this account about a data folder at a place of its own, so that they mask it. Started as root,
 * the account of the commands cannot enter it anyway.
 */
function nameToSandboxes(root: string): void {
  if (process.getuid?.() === 0 || root === defaultDataFolder()) return;
  const list = path.join(
    process.env.XDG_STATE_HOME || path.join(homedir(), '.local/state'),
    'countersign/data-folders',
  );
  const known = existsSync(list) ? readFileSync(list, 'utf8').split('\n').filter(Boolean) : [];
  if (known.includes(root)) return;
  mkdirSync(path.dirname(list), { recursive: true, mode: 0o700 });
  writeFileSync(list, `${[...known.filter(existsSync), root].join('\n')}\n`, { mode: 0o600 });
}

/** Makes what is missing and corrects the mode of `private/`. Never changes the owner of what was there. */
export function openDataFolder(root: string): DataFolder {
  mkdirSync(root, { recursive: true, mode: 0o711 });
  if (process.getuid?.() === 0) chmodSync(root, 0o711);
  nameToSandboxes(realpathSync(root));
  const folder = (name: string) => path.join(root, name);
  const privateFolder = folder('private');
  for (const name of ['private', 'private/keys', 'private/config', 'private/run', 'private/logs']) {
    mkdirSync(folder(name), { recursive: true, mode: 0o700 });
  }
  chmodSync(privateFolder, 0o700);
  const runAccount = resolveRunAccount(root);
  const databaseAccount = runAccount && recordedAccount(folder('database-account.json'), [runAccount.uid]);
  makeOwned(folder('database'), 0o700, databaseAccount);
  makeOwned(folder('projects'), 0o755, null);
  makeSampleProject(folder('projects/sample'), runAccount);
  makeOwned(folder('home'), 0o700, runAccount);
  return {
    root,
    private: privateFolder,
    keys: folder('private/keys'),
    config: folder('private/config'),
    sampleProject: folder('projects/sample'),
    home: folder('home'),
    runAccount,
    database: folder('database'),
    databaseAccount,
  };
}
