import type { Command } from 'commander';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { EXIT, print, RefusedError } from '../output.ts';

type DecideOptions = {
  reason?: string;
  for?: string;
  host?: string[];
  timeoutMs?: string;
  readOnly?: string[];
};

const DURATIONS = ['once', 'session', 'always'] as const;

/** What the options take away or remember, in the words of the interface. */
function termsOf(options: DecideOptions) {
  const { for: remember, host: hosts, timeoutMs, readOnly: readOnlyPaths } = options;
  const duration = DURATIONS.find((name) => name === remember);
  if (remember !== undefined && duration === undefined)
    throw new RefusedError(`\`--for\` is one of ${DURATIONS.join(', ')}`, 'countersign.cli.usage', EXIT.usage);
  const narrow = {
    ...(hosts ? { hosts } : {}),
    ...(timeoutMs === undefined ? {} : { timeoutMs: wholeNumber(timeoutMs, '--timeout-ms') }),
    ...(readOnlyPaths ? { readOnlyPaths } : {}),
  };
  return {
    ...(duration ? { remember: duration } : {}),
    ...(Object.keys(narrow).length === 0 ? {} : { narrow }),
  };
}

async function decide(
  command: Command,
  callId: string,
  answer: 'approve' | 'deny',
  options: DecideOptions,
): Promise<void> {
  const { reason } = options;
  const terms = termsOf(options);
  const gateway = localGateway(command, options.for === 'always' ? 'local-operator' : 'local-approver');
  const { viewDigest } = accepted(await gateway.callById(callId));
  if (!viewDigest) throw new RefusedError(`call \`${callId}\` waits for nobody`, 'countersign.gateway.already_decided');
  const decision = { answer, viewDigest, ...(reason === undefined ? {} : { reason }), ...terms };
  const { state } = accepted(await gateway.decide(callId, decision));
  print(command, { callId, state }, `${callId}: ${state}`);
}

/** `countersign approvals list | show | approve | deny`. */
export function addApprovalsCommand(program: Command): void {
  const approvals = program.command('approvals').description('calls that wait for a person');
  approvals
    .command('list')
    .description('calls that wait now')
    .action(async (_options: object, command: Command) => {
      const calls = accepted(await localGateway(command, 'local-approver').calls({ state: 'pending' }));
      const lines = calls.map(({ callId, agent, tool, summary }) => `${callId}  ${agent}  ${tool}  ${summary}`);
      print(command, { calls }, lines.join('\n') || 'no call waits');
    });
  approvals
    .command('show <call>')
    .description('a call with everything that is decided on')
    .action(async (callId: string, _options: object, command: Command) => {
      const call = accepted(await localGateway(command, 'local-approver').callById(callId));
      print(command, call, JSON.stringify(call, undefined, 2));
    });
  for (const answer of ['approve', 'deny'] as const) {
    const command = approvals
      .command(`${answer} <call>`)
      .description(`${answer} a call as it is shown now`)
      .option('--reason <text>', 'kept in the record and told to the agent')
      .action((callId: string, options: DecideOptions, inner: Command) => decide(inner, callId, answer, options));
    if (answer === 'approve')
      command
        .option(
          '--for <time>',
          '`once`, `session` (gives a grant) or `always` (saves the rule that the call shows under `offers`; for operators)',
        )
        .option('--host <names...>', 'only these of the hosts that the call may reach')
        .option('--timeout-ms <number>', 'a shorter wall-clock limit')
        .option('--read-only <paths...>', 'paths that the call may not write');
  }
}
