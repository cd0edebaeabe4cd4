import { readFileSync } from 'node:fs';
import {
  type ApproverList,
  approverListSchema,
  type IdentityFile,
  openIdentity,
  signApproverList,
} from '@countersign/protocol';
import type { Command } from 'commander';
import { z } from 'zod';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

const answerSchema = z.object({ draft: approverListSchema, published: approverListSchema.optional() });

const linesOf = ({ version, rpId, approvers }: ApproverList): string =>
  [`version ${version}, ${rpId}`, ...approvers.map(({ person, credentialId }) => `  ${person}  ${credentialId}`)].join(
    '\n',
  );

function readDraft(file: string): ApproverList {
  const parsed = approverListSchema.safeParse(JSON.parse(readFileSync(file, 'utf8')));
  if (parsed.success) return parsed.data;
  throw new RefusedError(`\`${file}\` is no list of approvers`, 'countersign.cli.usage', EXIT.usage);
}

/** `countersign approvers draft | sign | publish`. */
export function addApproversCommand(program: Command): void {
  const approvers = program.command('approvers').description('whose passkeys approve: the list that the root signs');
  approvers
    .command('draft')
    .description('the next list, with the passkeys enrolled now')
    .requiredOption('--out <file>', 'where to write it')
    .action(async ({ out }: { out: string }, command: Command) => {
      const gateway = localGateway(command, 'local-admin');
      const { draft } = accepted(await gateway.request('GET', '/v1/approver-list', answerSchema));
      writePrivateJson(out, draft);
      print(command, draft, linesOf(draft));
    });
  approvers
    .command('sign <draft>')
    .description('sign a list with the organisation root key; needs no network, so do it where the key is')
    .requiredOption('--root <file>', "the root's identity file")
    .requiredOption('--out <file>', 'where to write the signed list')
    .action(async (file: string, { root, out }: { root: string; out: string }, command: Command) => {
      const draft = readDraft(file);
      const identity = await openIdentity(JSON.parse(readFileSync(root, 'utf8')) as IdentityFile);
      writePrivateFile(out, signApproverList(identity, draft));
      print(
        command,
        { version: draft.version, root: identity.publicKey },
        `${linesOf(draft)}\nsigned by ${identity.publicKey}`,
      );
    });
  approvers
    .command('publish <signed>')
    .description('put a signed list in force; its version never goes back')
    .action(async (file: string, _options: object, command: Command) => {
      const body = { signed: readFileSync(file).toString('base64') };
      const schema = z.object({ version: z.number() });
      const gateway = localGateway(command, 'local-admin');
      const { version } = accepted(await gateway.request('PUT', '/v1/approver-list', schema, body));
      print(command, { version }, `version ${version} is in force`);
    });
}
