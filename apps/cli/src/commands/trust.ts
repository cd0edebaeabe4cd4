import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

const trustSchema = z.looseObject({
  id: z.string(),
  what: z.string(),
  host: z.string(),
  path: z.string(),
  by: z.string(),
  state: z.string(),
  digest: z.string().optional(),
  agent: z.string().optional(),
});
type Trust = z.infer<typeof trustSchema>;

const fileSchema = z.looseObject({
  layer: z.string(),
  digest: z.string(),
  state: z.string(),
  path: z.string().optional(),
  problem: z.string().optional(),
  content: z.unknown().optional(),
});

const lineOf = ({ id, what, host, path, state, by, digest, agent }: Trust): string =>
  [id, state, `${what} ${path} on ${host}`, agent ? `for ${agent}` : (digest ?? ''), `by ${by}`].join('  ');

function addFileCommands(trust: Command): void {
  trust
    .command('show <session>')
    .description('the permission files that a session is decided on, with content and digest')
    .action(async (session: string, _options: object, command: Command) => {
      const route = `/v1/sessions/${encodeURIComponent(session)}/layers`;
      const schema = z.object({ files: z.array(fileSchema), rules: z.array(z.unknown()) });
      const found = accepted(await localGateway(command, 'local-operator').request('GET', route, schema));
      const lines = found.files.map(
        ({ layer, state, digest, path = '', problem, content }) =>
          `${layer}  ${state}  ${digest}  ${path}${problem ? `  ${problem}` : ''}\n${JSON.stringify(content ?? {}, undefined, 2)}`,
      );
      print(command, found, lines.join('\n') || 'no permission file');
    });
  trust
    .command('file <session> <layer> <digest>')
    .description(
      'trust the project or local permission file of a session that has exactly this digest; see `trust show`',
    )
    .action(async (session: string, layer: string, digest: string, _options: object, command: Command) => {
      const body = { session, layer, digest };
      const given = accepted(
        await localGateway(command, 'local-operator').request('POST', '/v1/trust/files', trustSchema, body),
      );
      print(command, given, lineOf(given));
    });
  trust
    .command('release <session> <digest>')
    .description('let go what an earlier version of a permission file took away from a session')
    .action(async (session: string, digest: string, _options: object, command: Command) => {
      const route = `/v1/sessions/${encodeURIComponent(session)}/held/${encodeURIComponent(digest)}`;
      const schema = z.object({ released: z.string() });
      const done = accepted(await localGateway(command, 'local-operator').request('DELETE', route, schema));
      print(command, done, `${done.released}: released`);
    });
}

/** `countersign trust list | show | file | folder | revoke | release`. */
export function addTrustCommand(program: Command): void {
  const trust = program.command('trust').description('files and folders of workspaces that people trust');
  trust
    .command('list')
    .description('what people trusted')
    .action(async (_options: object, command: Command) => {
      const schema = z.object({ trust: z.array(trustSchema) });
      const found = accepted(await localGateway(command, 'local-operator').request('GET', '/v1/trust', schema));
      print(command, found, found.trust.map(lineOf).join('\n') || 'nothing is trusted');
    });
  addFileCommands(trust);
  trust
    .command('folder <agent> <host> <path>')
    .description('let an agent work in a folder; `path` is the real path of a folder that is there')
    .action(async (agent: string, host: string, path: string, _options: object, command: Command) => {
      const body = { agent, host, path };
      const given = accepted(
        await localGateway(command, 'local-operator').request('POST', '/v1/trust/folders', trustSchema, body),
      );
      print(command, given, lineOf(given));
    });
  trust
    .command('revoke <trust>')
    .description('end a trust; unstarted calls that became stricter are withdrawn')
    .action(async (id: string, _options: object, command: Command) => {
      const route = `/v1/trust/${encodeURIComponent(id)}`;
      const ended = accepted(await localGateway(command, 'local-operator').request('DELETE', route, trustSchema));
      print(command, ended, lineOf(ended));
    });
}
