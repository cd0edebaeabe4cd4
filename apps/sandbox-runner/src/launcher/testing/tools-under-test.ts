import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CommandEnding, HostTools, ToolLimits } from '../../work/host-tools.ts';
import { sandboxedTools } from '../sandboxed-tools.ts';

export const INSTALLATION = path.resolve(fileURLToPath(import.meta.url), '../../../../../..');
export const isRoot = process.getuid?.() === 0;
export const uid = isRoot ? 61184 : (process.getuid?.() ?? 0);
const gid = isRoot ? 61184 : (process.getgid?.() ?? 0);

/** Real tools of a host with a home and projects of the run account, below a folder of their own. */
export class ToolsUnderTest {
  readonly base = mkdtempSync('/var/tmp/countersign-tools-');
  readonly home: string;
  readonly tools: HostTools;
  private count = 0;

  constructor() {
    chmodSync(this.base, 0o755);
    this.home = this.folder('home');
    this.tools = this.another();
  }

  /** Tools of a second runner on the same host and account. */
  another(): HostTools {
    return sandboxedTools({ runAs: isRoot ? { uid, gid, home: this.home } : null, installation: INSTALLATION });
  }

  /** A new folder of the run account. */
  folder(...parts: string[]): string {
    const folder = path.join(this.base, ...parts);
    mkdirSync(folder, { recursive: true });
    chownSync(folder, uid, gid);
    return folder;
  }

  project(): string {
    this.count += 1;
    return this.folder(`project-${this.count}`);
  }

  /** Writes a file of the run account. */
  file(name: string, content: string | Uint8Array, mode = 0o644): string {
    writeFileSync(name, content);
    chmodSync(name, mode);
    chownSync(name, uid, gid);
    return name;
  }

  limits(project: string, change: Partial<ToolLimits> = {}): ToolLimits {
    return {
      callId: 'call_1',
      sessionId: 'ses_1',
      project,
      profile: 'workspace-write',
      denyRead: [],
      denyWrite: [],
      timeoutMs: 20_000,
      signal: new AbortController().signal,
      ...change,
    };
  }

  async close(): Promise<void> {
    await this.tools.close();
    rmSync(this.base, { recursive: true, force: true });
  }
}

/** Standard output of an ended command, or why it did not run. */
export const stdoutOf = (ending: CommandEnding): string =>
  ending.ending === 'sandbox_failed' ? ending.error.message : Buffer.from(ending.stdout).toString('utf8');
