import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { BRIDGE, PROXY_PORT } from '@countersign/sandbox';
import { thisProcess } from '../changes/process-owner.ts';
import type { EgressRules } from '../egress/egress-policy.ts';
import { EgressProxy } from '../egress/egress-proxy.ts';
import { type PreparedRun, prepareRun } from '../sandbox/prepare-run.ts';
import { type RunningSandbox, spawnSandbox } from '../sandbox/spawn-sandbox.ts';
import { type DriverReply, type DriverRequest, driverReplySchema, MAX_LINE_CHARS } from './driver-message.ts';
import { driverFiles } from './find-browser.ts';

/** Scratch folders are named after the process that made them, below the home of the run account. */
export const SCRATCH = '.countersign-browser-';
const NOTHING: EgressRules = { hosts: [], blockPrivateNetwork: true };
/** The browser did not answer as it should, so that it is ended. */
const failed = (message: string): DriverReply => ({ ok: false, message, isOver: true });

export type BrowserHost = {
  readonly installation: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly program: string;
};

/** Lines of a stream; a longer one than is allowed ends it. */
async function* linesOf(stream: Readable): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of stream.setEncoding('utf8')) {
    rest += chunk;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
      yield rest.slice(0, end);
      rest = rest.slice(end + 1);
    }
    if (rest.length > MAX_LINE_CHARS) return;
  }
}

function parseReply(line: string): DriverReply {
  try {
    const parsed = driverReplySchema.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : failed('the browser answered what is no answer');
  } catch {
    return failed('the browser answered what is no answer');
  }
}

/**
 * Chromium of one session, in a sandbox of its own: a minimum of the host to read, an empty temp folder in memory, a
 * scratch folder that goes with it, no project. SECURITY: its only way out is a proxy that is shut except while an action
 * runs, and then open to the hosts of that action alone.
 */
export class BrowserSession {
  readonly egress: EgressProxy;
  private readonly running: RunningSandbox;
  private readonly lines: AsyncGenerator<string>;
  private readonly gone: Promise<void>;
  private ended = false;

  private constructor(running: RunningSandbox, egress: EgressProxy, end: () => Promise<void>) {
    this.egress = egress;
    this.running = running;
    this.lines = linesOf(running.stdout as Readable);
    (running.stdin as Writable).on('error', () => undefined);
    this.gone = running.ended.then(() => {
      this.ended = true;
      return end();
    });
    this.gone.catch(() => undefined);
  }

  /** Starts Chromium. Throws a SandboxRefusal where no sandbox is to be had. */
  static async start({ installation, environment, program }: BrowserHost): Promise<BrowserSession> {
    const home = realpathSync(environment.HOME ?? '/');
    const scratch = mkdtempSync(path.join(home, `${SCRATCH}${thisProcess()}-`));
    const removeScratch = () => rmSync(scratch, { recursive: true, force: true });
    const { script, visible } = driverFiles();
    let prepared: PreparedRun | undefined;
    try {
      prepared = await prepareRun({
        ...{ installation, project: scratch, profile: 'networked', masks: [], hardened: true, visible, scratch: true },
        ...{ privateTemp: true, privateCache: true, unixSockets: 'mask' as const },
        environment,
      });
      const { temp } = prepared.places;
      const egress = new EgressProxy(NOTHING);
      const values = [program, `http://127.0.0.1:${PROXY_PORT}`, `${temp}/home`];
      const running = await spawnSandbox(prepared, {
        command: [BRIDGE.node, script, ...values],
        stdio: ['pipe', 'pipe', 'ignore'],
        egress,
      });
      const held = prepared;
      return new BrowserSession(running, egress, async () => {
        egress.close();
        await held.release();
        removeScratch();
      });
    } catch (error) {
      await prepared?.release();
      removeScratch();
      throw error;
    }
  }

  get isOver(): boolean {
    return this.ended;
  }

  /** One action. One that takes too long, is stopped or is answered wrongly ends the browser. */
  async act(request: DriverRequest, rules: EgressRules, signal: AbortSignal): Promise<DriverReply> {
    this.egress.open(rules);
    const { promise: over, resolve } = Promise.withResolvers<DriverReply>();
    const timer = setTimeout(() => resolve(failed('the page took too long; the browser was ended')), request.timeoutMs);
    const onAbort = () => resolve(failed('stopped; the browser was ended'));
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      const asked = { ...request, timeoutMs: Math.floor(request.timeoutMs * 0.9) };
      (this.running.stdin as Writable).write(`${JSON.stringify(asked)}\n`);
      const gone = failed('the browser ended; open the page again');
      const answered = this.lines.next().then(({ value, done }) => (done ? gone : parseReply(value)));
      const reply = await Promise.race([answered, over]);
      if (!reply.ok && reply.isOver) await this.end();
      return reply;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      this.egress.shut();
    }
  }

  /** Ends the whole tree; resolves when nothing of it is left. */
  async end(): Promise<void> {
    this.ended = true;
    this.running.kill();
    await this.gone;
  }
}
