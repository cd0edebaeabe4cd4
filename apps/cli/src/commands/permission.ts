import { readFileSync } from 'node:fs';
import type { PermissionUpdate } from '@countersign/agent';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { AGENT_OPTION, accepted, localAgent, localGateway } from '../local-installation.ts';
import { collect } from '../options.ts';
import { print, RefusedError, usage } from '../output.ts';

type UpdateOptions = {
  mode?: string;
  approvalMode?: string;
  addHost?: string[];
  backend?: string;
  allow?: string[];
  ask?: string[];
  deny?: string[];
  destination: PermissionUpdate['destination'];
  file?: string;
};

/** `tool pattern` or `tool`, as policies write rules. */
function ruleOf(text: string): { toolName: string; pattern?: string } {
  const [, toolName = '', pattern] = /^(\S+)(?:\s+(.+))?$/s.exec(text.trim()) ?? [];
  if (toolName === '') throw usage('a rule is `TOOL PATTERN`, for example `bash npm test`');
  return pattern === undefined ? { toolName } : { toolName, pattern };
}

/** The updates that options or a file name. */
export function updatesOf(options: UpdateOptions): PermissionUpdate[] {
  const { mode, approvalMode, addHost, backend, destination, file } = options;
  if (file !== undefined) return JSON.parse(readFileSync(file, 'utf8')) as PermissionUpdate[];
  const updates: PermissionUpdate[] = [];
  if (mode !== undefined || approvalMode !== undefined)
    updates.push({
      type: 'setMode',
      destination,
      ...(mode ? { mode } : {}),
      ...(approvalMode ? { approvalMode } : {}),
    });
  if (addHost) updates.push({ type: 'addHosts', destination, hosts: addHost });
  if (backend !== undefined) updates.push({ type: 'setSandboxBackend', destination, backend });
  for (const effect of ['allow', 'ask', 'deny'] as const) {
    const rules = options[effect]?.map(ruleOf);
    if (rules) updates.push({ type: 'addRules', destination, effect, rules });
  }
  if (updates.length === 0) throw usage('name what changes, for example `--mode networked`');
  return updates;
}

/** Adds the options that name updates. */
export const withUpdates = (command: Command): Command =>
  command
    .option('--mode <mode>', 'permission mode: `strict`, `dev`, `networked` or `yolo`')
    .option('--approval-mode <mode>', '`manual`, `auto` or `full_access`')
    .option('--add-host <hosts...>', 'hosts that commands and fetches may reach')
    .option('--backend <name>', 'sandbox backend that the host has proved')
    .option('--allow <rule>', 'a rule `TOOL PATTERN`; may be repeated', collect)
    .option('--ask <rule>', 'a rule that asks; may be repeated', collect)
    .option('--deny <rule>', 'a rule that denies; may be repeated', collect)
    .option('--file <json>', 'a JSON list of updates instead, also `replaceHosts`, `replaceRules`, `removeRules`')
    .addOption(
      new Option('--destination <where>', 'how far it reaches and how long it lasts')
        .choices(['session', 'local', 'project', 'user'])
        .default('session'),
    );

type AskOptions = UpdateOptions & { session: string; reason?: string };

/** `countersign permission ask`: asks for a permission update as an agent. */
export function addPermissionCommand(program: Command): void {
  const permission = program.command('permission').description('permission updates that an agent asks for');
  withUpdates(permission.command('ask'))
    .description('ask a person for a permission update of a session, as its agent, and wait for the answer')
    .requiredOption('--session <id>', 'session')
    .option('--reason <text>', 'why; shown to the person who decides')
    .option('--agent <file>', AGENT_OPTION)
    .action(async (options: AskOptions, command: Command) => {
      const updates = updatesOf(options);
      const agent = await localAgent(command);
      try {
        const { session, reason } = options;
        const onWaiting = ({ reason: told }: { reason: string }) => process.stderr.write(`${told}\n`);
        const request = { session, updates, onWaiting, ...(reason ? { reason } : {}) };
        const done = await agent.requestPermissions(request);
        if (!done.ok) throw new RefusedError(done.error.message, done.error.code);
        const { decidedBy } = done.value;
        print(command, { session, state: 'approved', decidedBy }, `${session}: approved, decided by ${decidedBy}`);
      } finally {
        await agent.close();
      }
    });
}

const requestSchema = z.looseObject({
  id: z.string(),
  kind: z.string(),
  agent: z.string(),
  host: z.string(),
  state: z.string(),
  session: z.string().optional(),
  path: z.string().optional(),
  reason: z.string(),
  by: z.string().optional(),
  says: z.array(z.string()).optional(),
  problem: z.string().optional(),
  digest: z.string().optional(),
});
type Request = z.infer<typeof requestSchema>;

const lineOf = ({ id, kind, agent, host, state, session, path = '', by }: Request): string =>
  [id, state, kind, `${agent} on ${host}`, session ?? path, ...(by ? [`by ${by}`] : [])].join('  ');

const routeOf = (id: string, rest = ''): string => `/v1/requests/${encodeURIComponent(id)}${rest}`;

/** `countersign requests list | show | approve | deny`. */
export function addRequestsCommand(program: Command): void {
  const requests = program.command('requests').description('permission updates and folders that agents ask people for');
  requests
    .command('list')
    .description('requests that wait')
    .option('--all', 'also those that have ended')
    .action(async ({ all }: { all?: true }, command: Command) => {
      const schema = z.object({ requests: z.array(requestSchema) });
      const path = `/v1/requests${all ? '' : '?state=waiting'}`;
      const found = accepted(await localGateway(command, 'local-operator').request('GET', path, schema));
      print(command, found, found.requests.map(lineOf).join('\n') || 'no request waits');
    });
  requests
    .command('show <request>')
    .description('what an approval would change')
    .action(async (id: string, _options: object, command: Command) => {
      const found = accepted(await localGateway(command, 'local-operator').request('GET', routeOf(id), requestSchema));
      const { says = [], problem, reason } = found;
      const lines = [
        lineOf(found),
        ...(reason ? [`the agent says: ${reason}`] : []),
        ...says.map((line) => `  ${line}`),
      ];
      print(command, found, [...lines, ...(problem ? [`cannot be approved now: ${problem}`] : [])].join('\n'));
    });
  for (const answer of ['approve', 'deny'] as const)
    requests
      .command(`${answer} <request>`)
      .description(answer === 'approve' ? 'put in force what `show` says, for later calls' : 'refuse it')
      .option('--reason <text>', 'kept in the record and told to the agent')
      .action(async (id: string, { reason = '' }: { reason?: string }, command: Command) => {
        const client = localGateway(command, 'local-operator');
        const { digest, problem } = accepted(await client.request('GET', routeOf(id), requestSchema));
        if (answer === 'approve' && digest === undefined)
          throw new RefusedError(
            problem ?? `request \`${id}\` waits for nobody`,
            'countersign.gateway.already_decided',
          );
        const body = answer === 'approve' ? { digest, reason } : { reason };
        const done = accepted(await client.request('POST', routeOf(id, `/${answer}`), requestSchema, body));
        print(command, done, lineOf(done));
      });
}
