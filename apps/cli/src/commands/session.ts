import path from 'node:path';
import type { Command } from 'commander';
import { localAgent } from '../local-installation.ts';
import { print, RefusedError } from '../output.ts';

type Options = { project: string; host: string; identity?: string; approvalMode?: string; permissionMode?: string };

/** `countersign session open`. */
export function addSessionCommand(program: Command): void {
  program
    .command('session')
    .description('sessions of an agent')
    .command('open')
    .requiredOption('--project <folder>', 'project folder on the host')
    .option('--host <id>', 'host', 'local')
    .option('--identity <file>', "the agent's identity file (default: the sample agent)")
    .option('--approval-mode <mode>', '`manual`, `auto` or `full_access`')
    .option('--permission-mode <mode>', '`strict`, `dev`, `networked` or `yolo`')
    .action(async (options: Options, command: Command) => {
      const agent = await localAgent(command, options.identity);
      try {
        const opened = await agent.openSession({
          project: path.resolve(options.project),
          host: options.host,
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
