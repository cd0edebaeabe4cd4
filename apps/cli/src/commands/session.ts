import path from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { AGENT_OPTION, accepted, localAgent, localGateway } from '../local-installation.ts';
import { print, RefusedError } from '../output.ts';
import { addSessionAdministration } from './session-admin.ts';

type Options = { project: string; host: string; approvalMode?: string; permissionMode?: string; wait?: true };

/** `countersign session open | request`, and what operators do with sessions. */
export function addSessionCommand(program: Command): void {
  const sessions = program.command('session').description('sessions of an agent');
  addSessionAdministration(sessions);
  sessions
    .command('request <session> <text>')
    .description('state what a session is for, as a person; the Guardian is told so instead of what the agent said')
    .action(async (session: string, text: string, _options: object, command: Command) => {
      const client = localGateway(command, 'local-operator');
      const path = `/v1/sessions/${encodeURIComponent(session)}/request`;
      const schema = z.object({ id: z.string(), requestBy: z.string() });
      const stated = accepted(await client.request('POST', path, schema, { text }));
      print(command, stated, `${stated.id}: request stated by ${stated.requestBy}`);
    });
  sessions
    .command('open')
    .description('open a session of an agent')
    .requiredOption('--project <folder>', 'project folder on the host')
    .option('--host <id>', 'host', 'local')
    .option('--agent <file>', AGENT_OPTION)
    .option('--approval-mode <mode>', '`manual`, `auto` or `full_access`')
    .option('--permission-mode <mode>', '`strict`, `dev`, `networked` or `yolo`')
    .option('--wait', 'in a folder that nobody trusted yet: wait while a person is asked, instead of ending')
    .action(async (options: Options, command: Command) => {
      const agent = await localAgent(command);
      try {
        const opened = await agent.openSession({
          project: path.resolve(options.project),
          host: options.host,
          untilTrusted: options.wait === true,
          onWaiting: ({ reason }) => process.stderr.write(`${reason}\n`),
          ...(options.approvalMode ? { approvalMode: options.approvalMode } : {}),
          ...(options.permissionMode ? { permissionMode: options.permissionMode } : {}),
        });
        if (!opened.ok) throw new RefusedError(opened.error.message, opened.error.code);
        print(command, opened.value, opened.value.sessionId);
      } finally {
        await agent.close();
      }
    });
}
