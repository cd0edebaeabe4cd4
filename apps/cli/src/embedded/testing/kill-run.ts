import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '@countersign/agent';
import { verifyLog } from '../check.ts';
import { enrolSamples } from '../enrol.ts';
import { type Installation, startInstallation } from '../installation.ts';
import { sampleAgent } from '../samples.ts';

/** Processes that are killed, as the installation names them. */
const VICTIMS = ['gateway', 'gateway-2', 'audit', 'runner', 'nats-server', 'postgres'] as const;
/** Calls under way at once. */
const CALLERS = 6;
const DRAIN_MS = 240_000;

export type KillRunOptions = {
  /** Ends after as many kills, or after as long, whichever comes first. */
  readonly kills: number;
  readonly durationMs: number;
  /** Wait between two kills, at least and at most. */
  readonly pauseMs: readonly [number, number];
  /** A number in [0, 1) for each choice. */
  readonly random: () => number;
  readonly say?: (line: string) => void;
};

type Call = { readonly name: string; callId: string; state: string };

/** What a run did and what was wrong after it; `wrong` is empty when every invariant held. */
export type KillRunReport = {
  readonly kills: Readonly<Record<string, number>>;
  readonly calls: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
  readonly log: string;
};

function pidOf(installation: Installation, name: string): number | undefined {
  const file = path.join(installation.data.private, 'run/processes.json');
  const { children } = JSON.parse(readFileSync(file, 'utf8')) as { children: { name: string; pid: number }[] };
  return children.find((child) => child.name === name)?.pid;
}

/** Kills one process; false when it was not there at that moment. */
function kill(installation: Installation, name: string): boolean {
  try {
    const pid = pidOf(installation, name);
    return pid !== undefined && process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (const untilMs = Date.now() + DRAIN_MS; ; ) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > untilMs) throw error;
      await delay(250);
    }
  }
}

/** Calls one after the other, each of which leaves one line in a file of its own, until told to end. */
async function callOn(agent: Agent, session: string, at: number, calls: Call[], isOver: () => boolean): Promise<void> {
  for (let n = 0; !isOver(); n += 1) {
    const call: Call = { name: `k_${at}_${n}`, callId: '', state: 'unanswered' };
    calls.push(call);
    const args = { command: `echo effect >> ${call.name}.txt` };
    const submitted = await retried(() => agent.call({ tool: 'bash', args, session }));
    call.callId = submitted.callId;
    call.state = (await submitted.result).state;
  }
}

const effectsOf = (folder: string, { name }: Call): number => {
  const file = path.join(folder, `${name}.txt`);
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean).length : 0;
};

/** What a call's end says of its effects: done once, interrupted at most once, anything else never. */
function wrongOf(folder: string, call: Call): string[] {
  const effects = effectsOf(folder, call);
  const told = `call ${call.name} (${call.callId}) is \`${call.state}\` with ${effects} effects`;
  if (call.state === 'done') return effects === 1 ? [] : [told];
  if (call.state === 'interrupted') return effects <= 1 ? [] : [told];
  return effects === 0 && call.state !== 'unanswered' ? [] : [told];
}

async function recordedOtherwise(installation: Installation, calls: readonly Call[]): Promise<string[]> {
  const client = installation.client('local-auditor');
  const wrong: string[] = [];
  for (const { callId, state, name } of calls) {
    if (callId === '') continue;
    const found = await retried(() => client.callById(callId));
    const recorded = found.ok ? found.value.state : found.error.detail;
    if (recorded !== state) wrong.push(`call ${name} (${callId}) ended \`${state}\`, the record says \`${recorded}\``);
  }
  return wrong;
}

async function killAtRandom(installation: Installation, options: KillRunOptions): Promise<Record<string, number>> {
  const { kills, durationMs, pauseMs, random, say } = options;
  const [least, most] = pauseMs;
  const untilMs = Date.now() + durationMs;
  const counts: Record<string, number> = Object.fromEntries(VICTIMS.map((name) => [name, 0]));
  for (let done = 0; done < kills && Date.now() < untilMs; ) {
    await delay(least + random() * (most - least));
    const victim = VICTIMS[Math.floor(random() * VICTIMS.length)] ?? 'audit';
    if (!kill(installation, victim)) continue;
    counts[victim] = (counts[victim] ?? 0) + 1;
    done += 1;
    if (done % 50 === 0) say?.(`${done} kills`);
  }
  return counts;
}

/**
 * Kills random processes of a real installation under load, lets it come to rest, and tells what does not hold: every call
 * ends, done means exactly one effect, interrupted at most one, the record says what the agent was told, the log verifies and
 * has no open call.
 */
export async function killRun(options: KillRunOptions): Promise<KillRunReport> {
  const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-kills-'));
  chmodSync(root, 0o711);
  mkdirSync(path.join(root, 'private'), { mode: 0o700 });
  const installation = await startInstallation(root, () => undefined, { gateways: 2, longestRestartMs: 250 });
  let agent: Agent | undefined;
  try {
    await enrolSamples(installation);
    agent = await retried(() => sampleAgent(installation));
    const { sampleProject } = installation.data;
    const opened = await agent.openSession({ project: sampleProject, host: 'local' });
    if (!opened.ok) throw new Error(opened.error.message);
    const calls: Call[] = [];
    let over = false;
    const callers = Array.from({ length: CALLERS }, (_, at) =>
      callOn(agent as Agent, opened.value.sessionId, at, calls, () => over),
    );
    const kills = await killAtRandom(installation, options);
    over = true;
    options.say?.('waiting for the calls under way');
    const rest = delay(DRAIN_MS, undefined, { ref: false });
    await Promise.race([Promise.all(callers), rest]);
    const wrong = calls.flatMap((call) => wrongOf(sampleProject, call));
    wrong.push(...(await recordedOtherwise(installation, calls)));
    const { text: log } = await retried(() => verifyLog(installation));
    if (!/ 0 problems$/.test(log)) wrong.push(`log: ${log}`);
    const states = Object.groupBy(calls, ({ state }) => state);
    const told = Object.fromEntries(Object.entries(states).map(([state, list]) => [state, list?.length ?? 0]));
    return { kills, calls: told, wrong, log };
  } finally {
    await agent?.close().catch(() => undefined);
    await installation.stop();
    rmSync(root, { recursive: true, force: true });
  }
}
