import path from 'node:path';
import type { Agent, CallOutcome, LiveOutput } from '@countersign/agent';
import { ERROR_CODES, visibleBytes } from '@countersign/protocol';
import { Argument, type Command, Option } from 'commander';
import { agentConfigOf } from '../connection.ts';
import { AGENT_OPTION, dataRoot, localAgent } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

type Options = {
  session?: string;
  tighten?: 'ask' | 'deny';
  executor?: 'runner' | 'agent';
};

/** JSON form of an outcome; byte fields as text in which bytes that are none are visible. */
export function outcomeView(outcome: CallOutcome): object {
  const { result, receipt, ...told } = outcome;
  const rest = {
    ...told,
    ...(receipt ? { receipt: { entry: receipt.entryId, index: Number(receipt.logIndex) } } : {}),
  };
  if (!result) return rest;
  const { stdout, stderr, content, truncatedBytes, ...facts } = result;
  return {
    ...rest,
    result: {
      ...facts,
      stdout: visibleBytes(stdout),
      stderr: visibleBytes(stderr),
      content: visibleBytes(content),
      truncatedBytes: Number(truncatedBytes),
    },
  };
}

/** The output of an executed call, or why there is none. */
export function outcomeText(outcome: CallOutcome): string {
  const { result, state, reason, decidedBy } = outcome;
  const head = `${outcome.callId}: ${state}${decidedBy ? `, decided by ${decidedBy}` : ''}${reason ? `: ${reason}` : ''}`;
  return result
    ? [head, visibleBytes(result.content), visibleBytes(result.stdout), visibleBytes(result.stderr)]
        .filter(Boolean)
        .join('\n')
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
  if (agentConfigOf(command))
    throw new RefusedError(
      'name the session with `--session`; `countersign session open` makes one',
      'countersign.cli.usage',
      EXIT.usage,
    );
  const project = path.join(dataRoot(command), 'projects/sample');
  const opened = await agent.openSession({ project, host: 'local' });
  if (!opened.ok) throw new RefusedError(opened.error.message, opened.error.code);
  return opened.value.sessionId;
}

/** SECURITY: what a command prints reaches the terminal without its control characters. */
function showLive({ stdout, stderr, droppedBytes }: LiveOutput): void {
  if (droppedBytes > 0) process.stderr.write(`[${droppedBytes} bytes not shown]\n`);
  process.stderr.write(visibleBytes(stdout) + visibleBytes(stderr));
}

/** `countersign call`: submits, waits, and on Ctrl-C cancels. */
export function addCallCommand(program: Command): void {
  program
    .command('call <tool> <arguments>')
    .description(
      'submit a tool call as an agent and wait for its end; its output is shown on standard error while it runs; Ctrl-C cancels it',
    )
    .option('--session <id>', 'session of the call (default: a new one on the sample project)')
    .option('--agent <file>', AGENT_OPTION)
    .addOption(new Option('--tighten <effect>', 'the call is at least asked for, or denied').choices(['ask', 'deny']))
    .addOption(
      new Option(
        '--executor <who>',
        '`agent` only decides: you carry the call out, then `countersign report` its end',
      ).choices(['runner', 'agent']),
    )
    .action(async (tool: string, args: string, options: Options, command: Command) => {
      const values = parsedArguments(args);
      const agent = await localAgent(command);
      try {
        const { result, cancel } = await agent.call({
          tool,
          args: values,
          session: options.session ?? (await sampleSession(agent, command)),
          ...(options.tighten ? { tighten: options.tighten } : {}),
          ...(options.executor ? { executor: options.executor } : {}),
          onOutput: showLive,
          onEvent: ({ state, callId, code, reason }) =>
            process.stderr.write(`${callId}: ${state}${code === ERROR_CODES.noApprover ? `: ${reason}` : ''}\n`),
        });
        process.once('SIGINT', () => cancel('cancelled on the command line'));
        const outcome = await result;
        print(command, outcomeView(outcome), outcomeText(outcome));
        const isFine =
          ['backgrounded', 'handed_over'].includes(outcome.state) ||
          (outcome.state === 'done' && outcome.result?.ok !== false);
        process.exitCode = isFine ? EXIT.ok : EXIT.refused;
      } finally {
        await agent.close();
      }
    });
}

type ReportOptions = { session: string; reason?: string };

/** `countersign report`: tells how a call ended that the agent carried out itself. */
export function addReportCommand(program: Command): void {
  program
    .command('report')
    .description('report the end of a call that was handed over to the agent; prints the recorded state')
    .argument('<call>', 'id of the call')
    .addArgument(new Argument('<state>', 'how it ended').choices(['done', 'failed']))
    .requiredOption('--session <id>', 'session of the call')
    .option('--agent <file>', AGENT_OPTION)
    .option('--reason <text>', 'what happened')
    .action(async (callId: string, state: 'done' | 'failed', options: ReportOptions, command: Command) => {
      const agent = await localAgent(command);
      const { session, reason } = options;
      try {
        const recorded = await agent.report({ callId, session, state, ...(reason ? { reason } : {}) });
        print(command, { callId, state: recorded }, `${callId}: ${recorded}`);
        process.exitCode = recorded === state ? EXIT.ok : EXIT.refused;
      } finally {
        await agent.close();
      }
    });
}
