import path from 'node:path';
import type { Command } from 'commander';
import { approveWaiting, verifyLog } from '../embedded/check.ts';
import { enrolSamples } from '../embedded/enrol.ts';
import { type Installation, startInstallation } from '../embedded/installation.ts';
import { writePrivateFile } from '../embedded/private-file.ts';
import { loginAddress, runSamples, type SampleLine, sampleAgent } from '../embedded/samples.ts';
import { dataRoot } from '../local-installation.ts';
import { EXIT } from '../output.ts';

type Options = { check?: boolean; samples: boolean; json?: boolean };
type Show = { readonly say: (line: string) => void; readonly line: (line: SampleLine) => void };

function output(json: boolean | undefined): Show {
  const say = (line: string) => process.stderr.write(`${line}\n`);
  if (json) return { say, line: (line) => process.stdout.write(`${JSON.stringify(line)}\n`) };
  const mark = (line: SampleLine) => (line.asExpected ? ' ' : '!');
  return { say, line: (line) => process.stdout.write(`${mark(line)} ${line.title.padEnd(24)} ${line.text}\n`) };
}

/** SECURITY: the login link is shown only on a terminal; otherwise only the path of a 0600 file that holds it. */
async function showDesk(installation: Installation, { say }: Show): Promise<void> {
  say(`desk: ${installation.endpoints.http}/`);
  const address = await loginAddress(installation);
  if (process.stdout.isTTY) return say(`log in once with: ${address}`);
  const file = path.join(installation.data.private, 'run/login-link');
  writePrivateFile(file, `${address}\n`);
  say(`one-time login link: in ${file}`);
}

async function check(installation: Installation, show: Show): Promise<number> {
  const agent = await sampleAgent(installation);
  try {
    const { lines, waiting } = await runSamples(installation, agent, show.line);
    for (const step of [() => approveWaiting(installation, waiting), () => verifyLog(installation)]) {
      const line = await step();
      lines.push(line);
      show.line(line);
    }
    const failed = lines.filter(({ asExpected }) => !asExpected).length;
    show.say(`check: ${lines.length - failed} as expected, ${failed} not`);
    return failed === 0 ? EXIT.ok : EXIT.refused;
  } finally {
    await agent.close();
  }
}

async function serve(
  installation: Installation,
  options: Options,
  show: Show,
  stopped: Promise<unknown>,
): Promise<void> {
  const agent = options.samples ? await sampleAgent(installation) : undefined;
  try {
    if (agent) {
      const { waiting } = await runSamples(installation, agent, show.line);
      show.say(`a write waits for you, for a week at most: ${waiting.callId}`);
      waiting.result.then(
        ({ state, decidedBy }) => show.say(`${waiting.callId}: ${state}, decided by ${decidedBy}`),
        () => undefined,
      );
    }
    await showDesk(installation, show);
    show.say('Ctrl-C stops everything; the data is kept');
    await stopped;
  } finally {
    await agent?.close();
  }
}

function sayAccounts({ data }: Installation, { say }: Show): void {
  const { runAccount } = data;
  say(
    runAccount
      ? `started as root: commands run as uid ${runAccount.uid}, which cannot enter ${data.private}, where all keys are`
      : `commands run as your account; keys in ${data.private} are kept from them by the sandbox's masks alone`,
  );
}

/** `countersign start`. */
export function addStartCommand(program: Command): void {
  program
    .command('start')
    .description('start everything on this machine, on loopback, and run the sample calls')
    .option('--check', 'approve the waiting call, verify the log offline, stop, end with 0 or 1')
    .option('--no-samples', 'start without the sample calls')
    .action(async (_options: object, command: Command) => {
      const options = command.optsWithGlobals<Options>();
      const show = output(options.json);
      const { promise: stopped, resolve } = Promise.withResolvers<void>();
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => resolve());
      const installation = await startInstallation(dataRoot(command), show.say, { interrupted: stopped });
      try {
        sayAccounts(installation, show);
        await enrolSamples(installation);
        if (options.check) process.exitCode = await check(installation, show);
        else await Promise.race([serve(installation, options, show, stopped), stopped]);
      } finally {
        show.say('stopping');
        await installation.stop();
      }
    });
}
