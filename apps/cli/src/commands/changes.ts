import type { Command } from 'commander';
import type { FileChangeView } from '../gateway-client.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { print } from '../output.ts';

/** As the gateway bounds it. */
const MAX_LIMIT = 500;

const lineOf = ({ callId, state, tool, host, path }: FileChangeView): string =>
  `${callId}  ${state}  ${tool}  ${host}:${path}`;

/** `countersign changes list | show | review | rollback`. */
export function addChangesCommand(program: Command): void {
  const changes = program.command('changes').description('files that agents changed; each is named by its call');
  changes
    .command('list')
    .description('changes, newest first')
    .option('--state <state>', '`unreviewed`, `reviewed` or `rolled_back`')
    .option('--limit <count>', `most changes, newest first, at most ${MAX_LIMIT}`, '100')
    .action(async (options: { state?: string; limit: string }, command: Command) => {
      const limit = wholeNumber(options.limit, '--limit', { most: MAX_LIMIT });
      const query = { limit, ...(options.state ? { state: options.state } : {}) };
      const found = accepted(await localGateway(command, 'local-approver').changes(query));
      print(command, { changes: found }, found.map(lineOf).join('\n') || 'no change');
    });
  changes
    .command('show <call>')
    .description('a change with its diff')
    .action(async (callId: string, _options: object, command: Command) => {
      const change = accepted(await localGateway(command, 'local-approver').changeOf(callId));
      print(command, change, `${lineOf(change)}\n${change.diff ?? ''}`);
    });
  changes
    .command('review <call>')
    .description('mark a change as reviewed')
    .action(async (callId: string, _options: object, command: Command) => {
      const { state } = accepted(await localGateway(command, 'local-approver').reviewChange(callId));
      print(command, { callId, state }, `${callId}: ${state}`);
    });
  changes
    .command('rollback <call>')
    .description('submit the rollback of a change; it is decided like a write')
    .option('--force', 'replace later work on the same lines; it is kept and can be brought back')
    .action(async (callId: string, options: { force?: boolean }, command: Command) => {
      const requested = accepted(
        await localGateway(command, 'local-approver').rollback(callId, options.force === true),
      );
      const { callId: rollback, state, reason } = requested;
      const next = state === 'pending' ? `; \`countersign approvals approve ${rollback}\` decides` : '';
      print(command, requested, `${rollback}: ${state}${reason ? `: ${reason}` : ''}${next}`);
    });
}
