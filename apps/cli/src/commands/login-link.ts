import type { Command } from 'commander';
import { z } from 'zod';
import { connectionOf } from '../connection.ts';
import { writePrivateFile } from '../embedded/private-file.ts';
import type { GatewayClient } from '../gateway-client.ts';
import { accepted, gatewayAddress, localGateway } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

type Options = { out?: string };

/** The person for whom the token of the connection stands. */
const ownName = async (gateway: GatewayClient): Promise<string> =>
  accepted(await gateway.request('GET', '/v1/me', z.object({ name: z.string() }))).name;

/** SECURITY: whoever holds the link acts as that person, so it goes to a terminal or to a file of mode 0600, not into a pipe. */
async function loginLink(person: string | undefined, { out }: Options, command: Command): Promise<void> {
  if (out === undefined && !process.stdout.isTTY)
    throw new RefusedError(
      'the link is shown on a terminal only; name a file with `--out`',
      'countersign.cli.usage',
      EXIT.usage,
    );
  const gateway = localGateway(command, 'local-admin');
  const whom = person ?? (connectionOf(command) ? await ownName(gateway) : 'local-approver');
  const made = accepted(
    await gateway.request('POST', '/v1/login-links', z.object({ path: z.string() }), { subject: whom }),
  );
  const link = new URL(made.path, gatewayAddress(command)).href;
  if (out === undefined) return print(command, { link }, link);
  writePrivateFile(out, `${link}\n`);
  print(command, { out }, `one-time login link: in ${out}`);
}

/** `countersign login-link`. */
export function addLoginLinkCommand(program: Command): void {
  program
    .command('login-link [person]')
    .description(
      'make a link that signs a person in at the desk, once, within ten minutes (default: whoever the connection stands for, or the local approver)',
    )
    .option('--out <file>', 'write it to a file of mode 0600 instead of showing it')
    .action((person: string | undefined, options: Options, command: Command) => loginLink(person, options, command));
}
