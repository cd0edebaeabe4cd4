import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

const grantSchema = z.looseObject({
  id: z.string(),
  session: z.string(),
  agent: z.string(),
  host: z.string(),
  reach: z.array(z.string()),
  givenBy: z.string(),
  expiresMs: z.number(),
  uses: z.number(),
});
type Grant = z.infer<typeof grantSchema>;
type Filter = { session?: string; agent?: string; all?: boolean; reason?: string };

const lineOf = (grant: Grant): string =>
  [
    grant.id,
    `${grant.agent} on ${grant.host}, ${grant.session}`,
    `by ${grant.givenBy}`,
    `${grant.uses} uses`,
    `until ${new Date(grant.expiresMs).toISOString()}`,
    grant.reach.join('; '),
  ].join('  ');

function queryOf({ session, agent, all, reason }: Filter): string {
  const query = new URLSearchParams({
    ...(session === undefined ? {} : { session }),
    ...(agent === undefined ? {} : { agent }),
    ...(all ? { all: 'true' } : {}),
    ...(reason === undefined ? {} : { reason }),
  });
  return query.size === 0 ? '' : `?${query}`;
}

async function revoke(id: string | undefined, options: Filter, command: Command): Promise<void> {
  const named = [id, options.session, options.agent, options.all].filter((value) => value !== undefined);
  if (named.length !== 1)
    throw new RefusedError(
      'name a grant, or one of `--session`, `--agent`, `--all`',
      'countersign.cli.usage',
      EXIT.usage,
    );
  const route = `/v1/grants${id === undefined ? '' : `/${encodeURIComponent(id)}`}${queryOf(options)}`;
  const schema = z.object({ revoked: z.array(z.string()) });
  const { revoked } = accepted(await localGateway(command, 'local-approver').request('DELETE', route, schema));
  print(command, { revoked }, revoked.map((grant) => `${grant}: revoked`).join('\n') || 'no grant was there');
}

/** `countersign grants list | revoke`. */
export function addGrantsCommand(program: Command): void {
  const grants = program.command('grants').description('what people allowed for a session, over all hosts and agents');
  grants
    .command('list')
    .description('grants that hold now')
    .option('--session <id>', 'of one session')
    .option('--agent <id>', 'of one agent')
    .action(async (options: Filter, command: Command) => {
      const schema = z.object({ grants: z.array(grantSchema) });
      const found = accepted(
        await localGateway(command, 'local-approver').request('GET', `/v1/grants${queryOf(options)}`, schema),
      );
      print(command, found, found.grants.map(lineOf).join('\n') || 'no grant lives');
    });
  grants
    .command('revoke [grant]')
    .description('end one grant, or all of a session, of an agent, or every one')
    .option('--session <id>', 'all of one session')
    .option('--agent <id>', 'all of one agent')
    .option('--all', 'every grant')
    .option('--reason <text>', 'kept in the record')
    .action(revoke);
}
