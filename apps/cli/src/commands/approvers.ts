import { readFileSync } from 'node:fs';
import { type ApproverDraft, signApproverList } from '@countersign/protocol';
import type { Command } from 'commander';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
import { approverLists, publishApprovers, readApproverDraft } from '../keys/approver-change.ts';
import { openRoot } from '../keys/roster-change.ts';
import { localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

type Line = ApproverDraft['approvers'][number];

function lineOf({ person, credentialId, untilMs, overlapMinutes }: Line): string {
  const until = untilMs === undefined ? [] : [`until ${new Date(untilMs).toISOString()}`];
  const overlap = overlapMinutes === undefined ? [] : [`replaced, for ${overlapMinutes} minutes from the signing`];
  return ['', person, credentialId, ...until, ...overlap].join('  ');
}
const linesOf = ({ version, rpId, approvers }: ApproverDraft): string =>
  [`version ${version}, ${rpId}`, ...approvers.map(lineOf)].join('\n');

/** `countersign approvers draft | sign | publish`. */
export function addApproversCommand(program: Command): void {
  const approvers = program.command('approvers').description('whose passkeys approve: the list that the root signs');
  approvers
    .command('draft')
    .description('the next list, with the passkeys enrolled now')
    .requiredOption('--out <file>', 'where to write it')
    .action(async ({ out }: { out: string }, command: Command) => {
      const { draft } = await approverLists(localGateway(command, 'local-admin'));
      writePrivateJson(out, draft);
      print(command, draft, linesOf(draft));
    });
  approvers
    .command('sign <draft>')
    .description(
      'sign a list with the organisation root key; needs no network, so do it where the key is; overlaps begin then',
    )
    .requiredOption('--root <file>', "the root's identity file")
    .requiredOption('--out <file>', 'where to write the signed list')
    .action(async (file: string, { root, out }: { root: string; out: string }, command: Command) => {
      const draft = readApproverDraft(file);
      const identity = await openRoot(root);
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
      const version = await publishApprovers(localGateway(command, 'local-admin'), readFileSync(file));
      print(command, { version }, `version ${version} is in force`);
    });
}
