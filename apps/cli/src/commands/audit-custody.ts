import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { plainText, print } from '../output.ts';

const holdsSchema = z.object({
  holds: z.array(z.object({ scope: z.string(), reason: z.string(), by: z.string(), setMs: z.number() })),
});
const erasedSchema = z.object({ sessions: z.int(), remaining: z.int(), lastCopyEnds: z.string() });
const retentionSchema = z.object({
  sessions: z.int(),
  heldSessions: z.int(),
  more: z.boolean(),
  entries: z.number(),
  keptBecause: z.string(),
});
const HOLDS = '/v1/audit/holds';
type Why = { reason: string };

function showHolds(command: Command, list: z.infer<typeof holdsSchema>): void {
  const lines = list.holds.map(
    ({ scope, reason, by, setMs }) => `${scope}  held by ${by} at ${new Date(setMs).toISOString()}: ${reason}`,
  );
  print(command, list, lines.length > 0 ? lines.map(plainText).join('\n') : 'nothing is held');
}

function addHoldCommand(audit: Command): void {
  const hold = audit
    .command('hold')
    .description('legal holds: all, session:ID, agent:ID, principal:NAME or range:FIRST-LAST (indexes of the log)');
  hold
    .command('set <scope>')
    .description('nothing of the scope is erased or dropped from now on')
    .requiredOption('--reason <text>', 'why; kept in the record')
    .action(async (scope: string, { reason }: Why, command: Command) => {
      const gateway = localGateway(command, 'local-operator');
      showHolds(command, accepted(await gateway.request('POST', HOLDS, holdsSchema, { scope, reason })));
    });
  hold
    .command('release <scope>')
    .description('lift the hold of exactly this scope; needs an admin')
    .requiredOption('--reason <text>', 'why; kept in the record')
    .action(async (scope: string, { reason }: Why, command: Command) => {
      const query = new URLSearchParams({ scope, reason });
      const gateway = localGateway(command, 'local-admin');
      showHolds(command, accepted(await gateway.request('DELETE', `${HOLDS}?${query}`, holdsSchema)));
    });
  hold
    .command('list')
    .description('what is held')
    .action(async (_flags: object, command: Command) => {
      showHolds(command, accepted(await localGateway(command, 'local-auditor').request('GET', HOLDS, holdsSchema)));
    });
}

/** `countersign audit hold | erase | retention`. */
export function addAuditCustodyCommands(audit: Command): void {
  addHoldCommand(audit);
  audit
    .command('erase <scope>')
    .description('make the payloads of session:ID, agent:ID or principal:NAME unreadable for ever; needs an admin')
    .requiredOption('--reason <text>', 'why; kept in the record')
    .action(async (scope: string, { reason }: Why, command: Command) => {
      const gateway = localGateway(command, 'local-admin');
      const done = accepted(await gateway.request('POST', '/v1/audit/erasures', erasedSchema, { scope, reason }));
      const rest = done.remaining > 0 ? `; ${done.remaining} are left, run it again` : '';
      print(command, done, `erased ${done.sessions} sessions; the last copy ends ${done.lastCopyEnds}${rest}`);
    });
  audit
    .command('retention')
    .description('count the sessions and entries that are past their time; needs an admin')
    .option('--apply', 'end them')
    .action(async ({ apply = false }: { apply?: boolean }, command: Command) => {
      const gateway = localGateway(command, 'local-admin');
      const done = accepted(await gateway.request('POST', '/v1/audit/retention', retentionSchema, { apply }));
      const rest = done.more ? '; there are more, run it again' : '';
      const what = apply ? 'ended the payloads of' : 'would end the payloads of';
      const drop = apply ? 'dropped' : 'would drop';
      const entries = done.entries > 0 ? `${drop} ${done.entries} entries` : `no entries: ${done.keptBecause}`;
      print(command, done, `${what} ${done.sessions} sessions; ${done.heldSessions} are held${rest}\n${entries}`);
    });
}
