import { type Command, Option } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';
import { updatesOf, withUpdates } from './permission.ts';

const sessionSchema = z.looseObject({
  id: z.string(),
  agent: z.string(),
  principal: z.string(),
  host: z.string(),
  project: z.string(),
  permissionMode: z.string(),
  approvalMode: z.string(),
  eternal: z.boolean(),
  state: z.string(),
  parent: z.string().optional(),
  requestText: z.string().optional(),
  chain: z.array(z.string()).optional(),
});
type Session = z.infer<typeof sessionSchema>;
const sessionsSchema = z.object({ sessions: z.array(sessionSchema) });

const modesOf = ({ permissionMode, approvalMode, eternal }: Session): string =>
  `${permissionMode}/${approvalMode}${eternal ? '/unattended' : ''}`;

const lineOf = (session: Session): string =>
  [session.id, session.state, `${session.agent} on ${session.host}`, session.project, modesOf(session)].join('  ');

const routeOf = (id: string, rest = ''): string => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

async function sessionsNow(command: Command, state?: string): Promise<readonly Session[]> {
  const query = state === undefined ? '' : `?state=${state}`;
  return accepted(await localGateway(command, 'local-operator').request('GET', `/v1/sessions${query}`, sessionsSchema))
    .sessions;
}

function listCommands(sessions: Command): void {
  sessions
    .command('list')
    .description('the newest 500 sessions, newest first')
    .addOption(new Option('--state <state>', 'only these').choices(['open', 'closed']))
    .action(async ({ state }: { state?: string }, command: Command) => {
      const found = await sessionsNow(command, state);
      print(command, { sessions: found }, found.map(lineOf).join('\n') || 'no session');
    });
  sessions
    .command('show <session>')
    .description('a session as its ancestors bound it, with its chain from the root')
    .action(async (id: string, _options: object, command: Command) => {
      const found = accepted(await localGateway(command, 'local-operator').request('GET', routeOf(id), sessionSchema));
      const chain = `chain: ${(found.chain ?? [id]).join(' > ')}`;
      print(command, found, [lineOf(found), `for ${found.principal}`, chain].join('\n'));
    });
  sessions
    .command('children <session>')
    .description('every session below one, among the newest 500')
    .action(async (id: string, _options: object, command: Command) => {
      const all = await sessionsNow(command);
      const below = all.filter(({ parent }) => parent === id);
      for (const one of below) below.push(...all.filter(({ parent }) => parent === one.id));
      print(command, { sessions: below }, below.map(lineOf).join('\n') || 'no session below it');
    });
}

type ModeOptions = { permissionMode?: string; approvalMode?: string; unattended?: string };

function modeCommand(sessions: Command): void {
  sessions
    .command('modes <session>')
    .description('change modes inside the ceilings, for later calls only')
    .addOption(
      new Option('--permission-mode <mode>', 'permission mode').choices(['strict', 'dev', 'networked', 'yolo']),
    )
    .addOption(new Option('--approval-mode <mode>', 'approval mode').choices(['manual', 'auto', 'full_access']))
    .addOption(new Option('--unattended <value>', 'also answers what waits for nothing else').choices(['on', 'off']))
    .action(async (id: string, options: ModeOptions, command: Command) => {
      const { permissionMode, approvalMode, unattended } = options;
      const body = {
        ...(permissionMode ? { permissionMode } : {}),
        ...(approvalMode ? { approvalMode } : {}),
        ...(unattended ? { eternal: unattended === 'on' } : {}),
      };
      if (Object.keys(body).length === 0)
        throw new RefusedError(
          'name a mode, for example `--permission-mode strict`',
          'countersign.cli.usage',
          EXIT.usage,
        );
      const client = localGateway(command, 'local-operator');
      const changed = accepted(await client.request('POST', routeOf(id, '/modes'), sessionSchema, body));
      print(command, changed, lineOf(changed));
    });
}

function updateCommand(sessions: Command): void {
  withUpdates(sessions.command('update <session>'))
    .description('make permission updates of a session take effect at once, for later calls')
    .option('--dry-run', 'only say what would change')
    .action(async (id: string, options: Parameters<typeof updatesOf>[0] & { dryRun?: true }, command: Command) => {
      const body = { updates: updatesOf(options), dry: options.dryRun === true };
      const schema = z.object({ session: z.string(), says: z.array(z.string()) });
      const client = localGateway(command, 'local-operator');
      const done = accepted(await client.request('POST', routeOf(id, '/updates'), schema, body));
      print(command, done, done.says.join('\n'));
    });
}

/** `countersign session list | show | children | modes | update | delete`. */
export function addSessionAdministration(sessions: Command): void {
  listCommands(sessions);
  modeCommand(sessions);
  updateCommand(sessions);
  sessions
    .command('delete <session>')
    .description('end a session and all below it: waiting calls are cancelled, running ones stopped, grants ended')
    .option('--reason <text>', 'kept in the record and told to the agent')
    .action(async (id: string, { reason = '' }: { reason?: string }, command: Command) => {
      const path = `${routeOf(id)}?${new URLSearchParams({ reason })}`;
      const schema = z.object({ id: z.string(), state: z.string() });
      const closed = accepted(await localGateway(command, 'local-operator').request('DELETE', path, schema));
      print(command, closed, `${closed.id}: ${closed.state}`);
    });
}
