import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { asAccount } from '../run-account.ts';

const ENTRY = fileURLToPath(new URL('../../sandbox-command.ts', import.meta.url));

export type Answer = { readonly status: number | null; readonly stdout: string; readonly stderr: string };

type RunOptions = {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Program and arguments that the command line is put behind. */
  readonly behind?: readonly string[];
};

/** The sandbox command as an ordinary account, with a home and projects below a folder of their own. */
export class CommandUnderTest {
  /** Started as root, so that it has to become an ordinary account. */
  readonly isRoot: boolean;
  readonly uid: number;
  readonly gid: number;
  readonly base = mkdtempSync('/var/tmp/countersign-boundary-');
  readonly home: string;
  private count = 0;

  /** `asRoot` stays root. */
  constructor({ asRoot = false } = {}) {
    this.isRoot = process.getuid?.() === 0 && !asRoot;
    this.uid = this.isRoot ? 61184 : (process.getuid?.() ?? 0);
    this.gid = this.isRoot ? 61184 : (process.getgid?.() ?? 0);
    chmodSync(this.base, 0o755);
    this.home = this.folder('home');
  }

  /** A new folder of the account below the base, or at an absolute path in it. */
  folder(name: string): string {
    const full = path.resolve(this.base, name);
    const parent = path.dirname(full);
    if (parent !== this.base && !existsSync(parent)) this.folder(parent);
    mkdirSync(full, { recursive: true });
    chownSync(full, this.uid, this.gid);
    return full;
  }

  project(): string {
    this.count += 1;
    return this.folder(`project-${this.count}`);
  }

  /** A file of the account; its folders are made. */
  file(name: string, content = 'SECRET'): string {
    const full = path.resolve(this.base, name);
    this.folder(path.dirname(full));
    writeFileSync(full, content);
    chownSync(full, this.uid, this.gid);
    return full;
  }

  start(command: readonly string[], { cwd = this.home, env = {} }: RunOptions = {}): ChildProcess {
    const { uid, gid, home } = this;
    const [program, args] = this.isRoot
      ? asAccount({ uid, gid, home }, command)
      : [command[0] as string, command.slice(1)];
    const variables = { HOME: home, PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8', ...env };
    return spawn(program, args, { cwd, env: variables, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  async run(command: readonly string[], options: RunOptions = {}): Promise<Answer> {
    const child = this.start(command, options);
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (chunk: string) => {
        text[name] += chunk;
      });
    }
    const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
    return { status, ...text };
  }

  command(args: readonly string[], { behind = [] }: RunOptions = {}): readonly string[] {
    return [...behind, process.execPath, ENTRY, ...args];
  }

  sandbox(args: readonly string[], options: RunOptions = {}): Promise<Answer> {
    return this.run(this.command(args, options), options);
  }

  /** Runs a shell text in the project with options of `exec`. */
  shell(project: string, text: string, options: readonly string[] = []): Promise<Answer> {
    return this.sandbox(['exec', '--project', project, ...options, '--', '/bin/sh', '-c', text]);
  }

  close(): void {
    rmSync(this.base, { recursive: true, force: true });
  }
}

/** A text that prints ESCAPED, and which step it was, for each step that works. */
export const attempts = (steps: readonly string[]): string =>
  [...steps.map((step, index) => `(${step}) >/dev/null 2>&1 && echo ESCAPED ${index}`), 'true'].join('\n');
