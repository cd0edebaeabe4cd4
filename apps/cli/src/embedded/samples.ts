import path from 'node:path';
import { type Agent, type CallOutcome, connectAgent, type SubmittedCall } from '@countersign/agent';
import { knownRoster, loadIdentity } from '@countersign/service-kit';
import { accepted } from '../local-installation.ts';
import { RefusedError } from '../output.ts';
import type { Installation } from './installation.ts';

type Sample = {
  readonly title: string;
  readonly tool: string;
  readonly args: object;
  readonly wants: 'done' | 'stopped' | 'denied';
};

/** One line of the sample run. */
export type SampleLine = { readonly title: string; readonly asExpected: boolean; readonly text: string };

const ANSWER_WAIT_MS = 60_000;
/** The write waits as long as any call may, so that whoever reads on first still finds it. */
const SAMPLE_WAIT_MS = 7 * 24 * 3_600_000;

const samples = (privateFolder: string): Sample[] => [
  { title: 'read notes.txt', tool: 'read', args: { path: 'notes.txt' }, wants: 'done' },
  { title: 'bash in the project', tool: 'bash', args: { command: 'echo hello > hello.txt' }, wants: 'done' },
  { title: 'bash writes outside', tool: 'bash', args: { command: 'touch /usr/countersign-sample' }, wants: 'stopped' },
  {
    title: 'bash reads our keys',
    tool: 'bash',
    args: { command: `cat ${path.join(privateFolder, 'keys/gateway.json')}` },
    wants: 'stopped',
  },
  {
    title: 'bash reaches out',
    tool: 'bash',
    args: { command: "bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'" },
    wants: 'stopped',
  },
  { title: 'bash: a denied command', tool: 'bash', args: { command: 'git push origin main' }, wants: 'denied' },
];

const STOPPERS: readonly (readonly [RegExp, string])[] = [
  [/read-only file system/i, 'read-only mount of the sandbox'],
  [/network is unreachable/i, 'network namespace'],
  [/permission denied/i, 'file mode'],
  [/no such file|is a directory|not a directory/i, 'mask'],
];

/** What stopped a command, as its own error text shows. */
export function stoppedBy(stderr: string): string | undefined {
  return STOPPERS.find(([pattern]) => pattern.test(stderr))?.[1];
}

function resultText({ result, state, reason }: CallOutcome): string {
  if (!result) return reason ? `${state}: ${reason}` : state;
  const stderr = new TextDecoder().decode(result.stderr).trim();
  const stopper = result.exitCode === 0 ? undefined : stoppedBy(stderr);
  if (stopper) return `stopped by ${stopper} (${stderr.split('\n').at(-1)})`;
  const output = new TextDecoder().decode(result.content.length > 0 ? result.content : result.stdout).trim();
  return [state, result.exited ? `exit ${result.exitCode}` : '', output.split('\n')[0] ?? '', stderr]
    .filter(Boolean)
    .join(', ');
}

function isAsWanted(outcome: CallOutcome, wants: Sample['wants']): boolean {
  if (wants === 'denied') return outcome.state === 'denied';
  if (wants === 'done') return outcome.state === 'done' && (outcome.result?.exitCode ?? 0) === 0;
  return outcome.result !== undefined && stoppedBy(new TextDecoder().decode(outcome.result.stderr)) !== undefined;
}

const decisionOf = ({ state }: CallOutcome): string => (['denied', 'rejected'].includes(state) ? 'deny' : 'allow');

/** Waits for a call's end within a bound. */
export async function endOf(call: SubmittedCall): Promise<CallOutcome> {
  const { promise, reject } = Promise.withResolvers<never>();
  const late = new RefusedError(`call \`${call.callId}\` did not end within 60 s`, 'countersign.cli.no_answer');
  const timer = setTimeout(() => reject(late), ANSWER_WAIT_MS);
  return Promise.race([call.result, promise]).finally(() => clearTimeout(timer));
}

async function runSample(agent: Agent, session: string, sample: Sample): Promise<SampleLine> {
  const outcome = await endOf(await agent.call({ tool: sample.tool, args: sample.args, session }));
  const text = `${decisionOf(outcome)} by ${outcome.decidedBy || '-'}: ${resultText(outcome)}`;
  return { title: sample.title, asExpected: isAsWanted(outcome, sample.wants), text };
}

/** In approval mode `auto` without a Guardian nothing that asks may run. */
async function runAutoSample(agent: Agent, project: string): Promise<SampleLine> {
  const title = 'write in mode auto';
  const opened = await agent.openSession({ project, host: 'local', approvalMode: 'auto' });
  if (!opened.ok) return { title, asExpected: true, text: `refused: ${opened.error.message} (${opened.error.code})` };
  const args = { path: 'auto.txt', content: 'never written\n' };
  return runSample(agent, opened.value.sessionId, { title, tool: 'write', args, wants: 'denied' });
}

/** Connects as the sample agent. */
export async function sampleAgent({ endpoints, keys }: Installation): Promise<Agent> {
  const identity = await loadIdentity(keys.identityPath('agent-sample'));
  return connectAgent({
    natsUrl: endpoints.natsUrl,
    identity,
    roster: knownRoster({ rosterFile: keys.rosterFile, rootKey: endpoints.rootKey }),
  });
}

/** Runs the sample calls one after the other, then submits the write that waits for a person. */
export async function runSamples(
  installation: Installation,
  agent: Agent,
  show: (line: SampleLine) => void,
): Promise<{ lines: SampleLine[]; waiting: SubmittedCall }> {
  const { data } = installation;
  const opened = await agent.openSession({
    project: data.sampleProject,
    host: 'local',
    requestText: 'show what the product does',
  });
  if (!opened.ok) throw new RefusedError(`sample session: ${opened.error.message}`, opened.error.code);
  const session = opened.value.sessionId;
  const lines: SampleLine[] = [];
  const add = (line: SampleLine) => {
    lines.push(line);
    show(line);
  };
  for (const sample of samples(data.private)) add(await runSample(agent, session, sample));
  add(await runAutoSample(agent, data.sampleProject));
  const args = { path: 'approved.txt', content: 'written after a person approved it\n' };
  const deadlineMs = Date.now() + SAMPLE_WAIT_MS;
  return { lines, waiting: await agent.call({ tool: 'write', args, session, deadlineMs }) };
}

/** One-time login address of the desk. */
export async function loginAddress({ client, endpoints }: Installation): Promise<string> {
  return new URL(accepted(await client('local-operator').loginPath()), endpoints.http).href;
}
