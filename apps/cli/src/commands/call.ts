import path from 'node:path';
import type { Agent, CallOutcome } from '@countersign/agent';
import type { Command } from 'commander';
import { dataRoot, localAgent } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

type Options = { session?: string; identity?: string; tighten?: 'ask' | 'deny' };

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** JSON form of an outcome; byte fields as text. */
export function outcomeView(outcome: CallOutcome): object {
  const { result, ...rest } = outcome;
  if (!result) return rest;
  const { stdout, stderr, content, truncatedBytes, ...facts } = result;
  return {
    ...rest,
    result: {
      ...facts,
      stdout: text(stdout),
      stderr: text(stderr),
      content: text(content),
      truncatedBytes: Number(truncatedBytes),
    },
  };
}

/** The output of an executed call, or why there is none. */
export function outcomeText(outcome: CallOutcome): string {
  const { result, state, reason, decidedBy } = outcome;
  const head = `${outcome.callId}: ${state}${decidedBy ? `, decided by ${decidedBy}` : ''}${reason ? `: ${reason}` : ''}`;
  return result
    ? [head, text(result.content), text(result.stdout), text(result.stderr)].filter(Boolean).join('\n')
    : head;
}

function parsedArguments(args: string): unknown {
  try {
    return JSON.parse(args);
  } catch {
    throw new RefusedError(
      'arguments are not JSON; try `\'{"path":"notes.txt"}\'`',
      'countersign.cli.usage',
      EXIT.usage,
    );
  }
}

async function sampleSession(agent: Agent, command: Command): Promise<string> {
  const project = path.join(dataRoot(command), 'projects/sample');
  const opened = await agent.openSession({ project, host: 'local' });
  if (!opened.ok) throw new RefusedError(opened.error.message, opened.error.code);
  return opened.value.sessionId;
}

/** `countersign call`: submits, waits, and on Ctrl-C cancels. */
export function addCallCommand(program: Command): void {
  program
    .command('call <tool> <arguments>')
    .description('submit a tool call as an agent and wait for its end; Ctrl-C cancels it')
    .option('--session <id>', 'session of the call (default: a new one on the sample project)')
    .option('--identity <file>', "the agent's identity file (default: the sample agent)")
    .option('--tighten <effect>', '`ask` or `deny`')
    .action(async (tool: string, args: string, options: Options, command: Command) => {
      const values = parsedArguments(args);
      const agent = await localAgent(command, options.identity);
      try {
        const { result, cancel } = await agent.call({
          tool,
          args: values,
          session: options.session ?? (await sampleSession(agent, command)),
          ...(options.tighten ? { tighten: options.tighten } : {}),
          onEvent: ({ state, callId }) => process.stderr.write(`${callId}: ${state}\n`),
        });
        process.once('SIGINT', () => cancel('cancelled on the command line'));
        const outcome = await result;
        print(command, outcomeView(outcome), outcomeText(outcome));
        process.exitCode = outcome.state === 'done' && outcome.result?.ok !== false ? EXIT.ok : EXIT.refused;
      } finally {
        await agent.close();
      }
    });
}
