import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

const stateSchema = z.looseObject({
  epoch: z.number(),
  freezes: z.array(
    z.looseObject({
      scope: z.string(),
      reason: z.string(),
      by: z.string(),
      stopRunning: z.boolean(),
      setMs: z.number(),
    }),
  ),
  confirmed: z.array(z.looseObject({ host: z.string(), running: z.number() })),
  unconfirmed: z.array(z.string()),
});
type State = z.infer<typeof stateSchema>;

function linesOf({ freezes, confirmed, unconfirmed }: State): string[] {
  const frozen = freezes.map(
    ({ scope, reason, by, stopRunning, setMs }) =>
      `${scope}  frozen by ${by} at ${new Date(setMs).toISOString()}${stopRunning ? ', running work stopped' : ''}: ${reason}`,
  );
  return [
    ...(frozen.length > 0 ? frozen : ['nothing is frozen']),
    ...confirmed.map(({ host, running }) => `${host}  confirmed, ${running} running`),
    ...unconfirmed.map((host) => `${host}  has not confirmed`),
  ];
}

const show = (command: Command, state: State): void => print(command, state, linesOf(state).join('\n'));

/** `countersign freeze set | clear | status`. */
export function addFreezeCommand(program: Command): void {
  const freeze = program.command('freeze').description('the kill switch: all, host:ID, agent:ID or session:ID');
  freeze
    .command('set <scope>')
    .description('nothing in the scope is approved or started from now on')
    .requiredOption('--reason <text>', 'why; kept in the record')
    .option('--stop-running', 'also stop what runs in the scope')
    .action(async (scope: string, options: { reason: string; stopRunning?: boolean }, command: Command) => {
      const body = { scope, reason: options.reason, stopRunning: options.stopRunning === true };
      show(
        command,
        accepted(await localGateway(command, 'local-operator').request('POST', '/v1/freeze', stateSchema, body)),
      );
    });
  freeze
    .command('clear <scope>')
    .description('lift the freeze of exactly this scope')
    .requiredOption('--reason <text>', 'why; kept in the record')
    .action(async (scope: string, { reason }: { reason: string }, command: Command) => {
      const query = new URLSearchParams({ scope, reason });
      show(
        command,
        accepted(await localGateway(command, 'local-operator').request('DELETE', `/v1/freeze?${query}`, stateSchema)),
      );
    });
  freeze
    .command('status')
    .description('what is frozen, and which hosts keep to it')
    .action(async (_options: object, command: Command) => {
      show(command, accepted(await localGateway(command, 'local-approver').request('GET', '/v1/freeze', stateSchema)));
    });
}
