import type { Command } from 'commander';
import { z } from 'zod';
import { writePrivateFile } from '../embedded/private-file.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { print } from '../output.ts';

/** As the gateway bounds them. */
const MAX_DAYS = 366;

const tokenSchema = z.looseObject({
  id: z.string(),
  label: z.string(),
  subject: z.string(),
  roles: z.array(z.string()),
  scopes: z.array(z.string()),
  expires_ms: z.number(),
  revoked_ms: z.number().nullable(),
});
type Token = z.infer<typeof tokenSchema>;

type CreateOptions = {
  subject?: string;
  role: string[];
  group?: string[];
  scope: string[];
  days: string;
  out?: string;
};

const stateOf = ({ revoked_ms, expires_ms }: Token): string =>
  revoked_ms === null ? `until ${new Date(expires_ms).toISOString()}` : 'revoked';

const lineOf = (token: Token): string =>
  [token.id, token.label, token.subject, token.roles.join(','), token.scopes.join(','), stateOf(token)].join('  ');

async function create(label: string, options: CreateOptions, command: Command): Promise<void> {
  const days = wholeNumber(options.days, '--days', { most: MAX_DAYS });
  const body = {
    label,
    ...(options.subject === undefined ? {} : { subject: options.subject }),
    roles: options.role,
    groups: options.group ?? [],
    scopes: options.scope,
    days,
  };
  const schema = tokenSchema.extend({ text: z.string() });
  const { text, ...token } = accepted(
    await localGateway(command, 'local-admin').request('POST', '/v1/tokens', schema, body),
  );
  if (options.out === undefined) return print(command, { ...token, text }, text);
  writePrivateFile(options.out, `${text}\n`);
  print(command, token, `${token.id}: written to ${options.out}`);
}

/** `countersign tokens create | list | revoke`. */
export function addTokensCommand(program: Command): void {
  const tokens = program.command('tokens').description('API tokens: scoped, expiring, revocable');
  tokens
    .command('create <label>')
    .description('make a token; its text is shown once')
    .requiredOption('--role <names...>', 'viewer, approver, operator, admin, auditor')
    .option('--scope <names...>', 'read, decide, operate, admin', ['read'])
    .option('--group <names...>', 'groups that queues name')
    .option('--subject <person>', 'the person it stands for (default: the local admin)')
    .option('--days <count>', `valid for so many days, at most ${MAX_DAYS}`, '30')
    .option('--out <file>', 'write it to a file of mode 0600 instead of showing it')
    .action(create);
  tokens
    .command('list')
    .description('tokens without what could be used')
    .action(async (_options: object, command: Command) => {
      const schema = z.object({ tokens: z.array(tokenSchema) });
      const list = accepted(await localGateway(command, 'local-admin').request('GET', '/v1/tokens', schema));
      print(command, list, list.tokens.map(lineOf).join('\n') || 'no token was made');
    });
  tokens
    .command('revoke <id>')
    .description('end a token for good; holds at every gateway within seconds')
    .action(async (id: string, _options: object, command: Command) => {
      const path = `/v1/tokens/${encodeURIComponent(id)}`;
      accepted(await localGateway(command, 'local-admin').request('DELETE', path, z.unknown()));
      print(command, { id, revoked: true }, `${id}: revoked`);
    });
}
