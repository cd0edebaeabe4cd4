import type { Command } from 'commander';
import { accepted, localGateway } from '../local-installation.ts';
import { print, RefusedError } from '../output.ts';

type DecideOptions = { reason?: string };

async function decide(command: Command, callId: string, answer: 'approve' | 'deny', reason?: string): Promise<void> {
  const gateway = localGateway(command, 'local-approver');
  const { viewDigest } = accepted(await gateway.callById(callId));
  if (!viewDigest) throw new RefusedError(`call \`${callId}\` waits for nobody`, 'countersign.gateway.already_decided');
  const decision = { answer, viewDigest, ...(reason === undefined ? {} : { reason }) };
  const { state } = accepted(await gateway.decide(callId, decision));
  print(command, { callId, state }, `${callId}: ${state}`);
}

/** `countersign approvals list | show | approve | deny`. */
export function addApprovalsCommand(program: Command): void {
  const approvals = program.command('approvals').description('calls that wait for a person');
  approvals.command('list').action(async (_options: object, command: Command) => {
    const calls = accepted(await localGateway(command, 'local-approver').calls({ state: 'pending' }));
    const lines = calls.map(({ callId, agent, tool, summary }) => `${callId}  ${agent}  ${tool}  ${summary}`);
    print(command, { calls }, lines.join('\n') || 'no call waits');
  });
  approvals.command('show <call>').action(async (callId: string, _options: object, command: Command) => {
    const call = accepted(await localGateway(command, 'local-approver').callById(callId));
    print(command, call, JSON.stringify(call, undefined, 2));
  });
  for (const answer of ['approve', 'deny'] as const) {
    approvals
      .command(`${answer} <call>`)
      .option('--reason <text>', 'kept in the record')
      .action((callId: string, { reason }: DecideOptions, command: Command) => decide(command, callId, answer, reason));
  }
}
