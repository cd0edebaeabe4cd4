import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    throw new RefusedError(`\`${file}\` cannot be read`, 'countersign.cli.usage', EXIT.usage);
  }
}

/** `countersign policy publish FILE` and `countersign policy show`. */
export function addPolicyPublishCommands(policy: Command): void {
  policy
    .command('publish <file>')
    .description('put a policy file in force; unstarted calls that it would answer more strictly are withdrawn')
    .action(async (file: string, _options: object, command: Command) => {
      const body = { text: textOf(file), name: path.basename(file) };
      const schema = z.object({ version: z.number(), digest: z.string() });
      const done = accepted(await localGateway(command, 'local-admin').request('PUT', '/v1/policy', schema, body));
      print(command, done, `version ${done.version}, ${done.digest}`);
    });
  policy
    .command('show')
    .description('the managed layer in force')
    .action(async (_options: object, command: Command) => {
      const schema = z.looseObject({ version: z.number(), digest: z.string(), source: z.string(), by: z.string() });
      const found = accepted(await localGateway(command, 'local-approver').request('GET', '/v1/policy', schema));
      print(command, found, JSON.stringify(found, undefined, 2));
    });
}
