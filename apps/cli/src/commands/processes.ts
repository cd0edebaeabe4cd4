import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { print } from '../output.ts';

/** As the gateway bounds them. */
const MAX_LINES = 2_000;

const listSchema = z.object({
  calls: z.array(z.looseObject({ callId: z.string(), host: z.string(), agent: z.string(), summary: z.string() })),
});

/** `countersign processes list | tail | background | stop`. */
export function addProcessesCommand(program: Command): void {
  const processes = program.command('processes').description('commands that run; each is named by its call');
  const gateway = (command: Command) => localGateway(command, 'local-approver');
  const route = (callId: string, rest: string) => `/v1/calls/${encodeURIComponent(callId)}/${rest}`;
  processes
    .command('list')
    .description('commands in the background')
    .action(async (_options: object, command: Command) => {
      const { calls } = accepted(await gateway(command).request('GET', '/v1/processes', listSchema));
      const lines = calls.map(({ callId, host, agent, summary }) => `${callId}  ${host}  ${agent}  ${summary}`);
      print(command, { calls }, lines.join('\n') || 'no command runs in the background');
    });
  processes
    .command('tail <call>')
    .description('last lines that a running command printed')
    .option('--lines <count>', `most lines, at most ${MAX_LINES}`, '100')
    .action(async (callId: string, { lines }: { lines: string }, command: Command) => {
      const at = route(callId, `tail?lines=${wholeNumber(lines, '--lines', { most: MAX_LINES })}`);
      const { text } = accepted(await gateway(command).request('GET', at, z.object({ text: z.string() })));
      print(command, { callId, text }, text.replace(/\n$/, ''));
    });
  processes
    .command('background <call>')
    .description('let the running command of a call go on in the background')
    .action(async (callId: string, _options: object, command: Command) => {
      accepted(await gateway(command).request('POST', route(callId, 'background'), z.unknown(), {}));
      print(command, { callId, outcome: 'requested' }, `${callId}: asked to go on in the background`);
    });
  processes
    .command('stop <call>')
    .description('stop a command with its whole process tree')
    .action(async (callId: string, _options: object, command: Command) => {
      accepted(await gateway(command).cancel(callId, 'stopped on the command line'));
      print(command, { callId, outcome: 'stop_requested' }, `${callId}: asked to stop`);
    });
}
