import { existsSync, readFileSync } from 'node:fs';
import {
  createIdentity,
  ERROR_CODES,
  MAX_OVERLAP_MINUTES,
  type RosterDraft,
  type RosterMember,
} from '@countersign/protocol';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { membersSchema } from '../embedded/broker-users.ts';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
import type { GatewayClient } from '../gateway-client.ts';
import { approverLists, revokeApprover, rotateApprover } from '../keys/approver-change.ts';
import {
  changeRoster,
  hostsBehind,
  publishRoster,
  type RosterRole,
  readRosterDraft,
  rosterInForce,
  type SignOptions,
  signWithRoot,
  withRevoked,
} from '../keys/roster-change.ts';
import { identityFileOf, type MemberRole, rotateControlKey, rotateMemberKeys } from '../keys/rotate-keys.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { plainText, print, RefusedError, usage } from '../output.ts';

type RotateOptions = SignOptions & {
  identity?: string;
  gateway?: string;
  overlap: string;
  credential?: string;
  wait: string;
};
type RevokeOptions = SignOptions & { last?: true };

/** A command waits for a person this long at most, in minutes. */
const MAX_WAIT_MINUTES = 60;

/** One key as the list shows it. */
type KeyLine = { readonly role: string; readonly id: string; readonly key: string; readonly state: string };

const untilText = (untilMs: number, nowMs: number): string =>
  nowMs < untilMs ? `until ${new Date(untilMs).toISOString()}` : 'retired';

/** State of a key that has an end, in a draft an overlap that begins with the signing, or neither. */
function stateOf(
  { untilMs, overlapMinutes }: { untilMs?: number | undefined; overlapMinutes?: number | undefined },
  nowMs: number,
) {
  if (untilMs !== undefined) return untilText(untilMs, nowMs);
  return overlapMinutes === undefined ? 'active' : `replaced, for ${overlapMinutes} minutes from the signing`;
}

const controlLine = (member: RosterDraft['members'][number], nowMs: number): KeyLine => ({
  ...{ role: member.role, id: member.id, key: member.signKey },
  state: member.revoked ? 'revoked' : stateOf(member, nowMs),
});

function memberLines(
  { role, id, ...keys }: z.infer<typeof membersSchema>['members'][number],
  nowMs: number,
): KeyLine[] {
  const orRevoked = (key: string, otherwise: string) => (keys.revoked.includes(key) ? 'revoked' : otherwise);
  const named = [
    { key: keys.sign_key, state: orRevoked(keys.sign_key, 'active') },
    ...keys.previous.map(({ sign_key: key, until_ms }) => ({ key, state: orRevoked(key, untilText(until_ms, nowMs)) })),
  ];
  const gone = keys.revoked.filter((key) => !named.some((line) => line.key === key));
  return [...named, ...gone.map((key) => ({ key, state: 'revoked' }))].map((line) => ({ role, id, ...line }));
}

/** Approvers of the list in force; nobody where passkeys are not configured. */
async function listedApprovers(gateway: GatewayClient) {
  try {
    return (await approverLists(gateway)).published?.approvers ?? [];
  } catch (error) {
    if (error instanceof RefusedError && error.code === ERROR_CODES.passkeyRefused) return [];
    throw error;
  }
}

async function list(_options: object, command: Command): Promise<void> {
  const gateway = localGateway(command, 'local-admin');
  const nowMs = Date.now();
  const { version, members } = await rosterInForce(gateway);
  const enrolled = accepted(await gateway.request('GET', '/v1/members', membersSchema));
  const listed = await listedApprovers(gateway);
  const keys: KeyLine[] = [
    ...members.map((member) => controlLine(member, nowMs)),
    ...enrolled.members.flatMap((member) => memberLines(member, nowMs)),
    ...listed.map((line) => ({
      ...{ role: 'approver', id: line.person, key: line.credentialId },
      state: stateOf(line, nowMs),
    })),
  ];
  const lines = keys.map(({ role, id, key, state }) => [role, id, key, state].join('  '));
  print(command, { rosterVersion: version, keys }, [`roster version ${version}`, ...lines].join('\n'));
}

const behindText = (behind: readonly string[]): string =>
  behind.length === 0 ? '' : `\nhosts that do not keep to it yet and start nothing until they do: ${behind.join(', ')}`;

async function create(role: RosterRole, id: string, options: SignOptions & { out: string }, command: Command) {
  if (existsSync(options.out)) throw usage(`\`${options.out}\` exists; name another file`);
  const identity = await createIdentity(role, id);
  writePrivateJson(options.out, identity);
  const { members } = await rosterInForce(localGateway(command, 'local-admin'));
  const added: RosterMember = { role, id, signKey: identity.publicKey, sealKey: identity.sealPublicKey };
  const changed = await changeRoster([...members, added], options, command);
  const value = { role, id, key: identity.publicKey, rosterVersion: changed?.version ?? null };
  const then = changed ? `roster version ${changed.version} names it` : `sign and publish ${options.draft}`;
  print(
    command,
    value,
    `${role} ${id}: ${identity.publicKey}, kept in ${options.out}; ${then}${behindText(changed?.behind ?? [])}`,
  );
}

async function rotatePasskey(person: string, options: RotateOptions, command: Command): Promise<void> {
  const overlapMinutes = wholeNumber(options.overlap, '--overlap', { least: 1, most: MAX_OVERLAP_MINUTES });
  const waitMinutes = wholeNumber(options.wait, '--wait', { least: 0, most: MAX_WAIT_MINUTES });
  const rotation = { person, overlapMinutes, waitMinutes, credential: options.credential };
  const { passkey, version } = await rotateApprover(rotation, options, command);
  const { credential_id: key, label, added_ms } = passkey;
  const what = `approver ${person}: ${key} (${plainText(label)}, added ${new Date(added_ms).toISOString()})`;
  const text =
    version === undefined
      ? `${what} takes over once ${options.draft} is signed and published with \`countersign approvers\``
      : `${what} decides by list version ${version}; the passkeys before count for ${overlapMinutes} minutes more`;
  print(command, { role: 'approver', id: person, key, adopted: version !== undefined, version: version ?? null }, text);
}

async function rotate(role: RosterRole | MemberRole, id: string, options: RotateOptions, command: Command) {
  const overlapMinutes = wholeNumber(options.overlap, '--overlap', { least: 1, most: MAX_OVERLAP_MINUTES });
  const file = identityFileOf(role, id, options.identity, command);
  const done =
    role === 'host' || role === 'agent'
      ? await rotateMemberKeys({ role, id, file, overlapMinutes }, options.gateway, command)
      : await rotateControlKey({ role, id, file, overlapMinutes }, options, command);
  const text = done.adopted
    ? `${role} ${id}: signs with ${done.key}; the key before counts for ${overlapMinutes} minutes more`
    : `${role} ${id}: sign and publish ${options.draft}, then repeat this command without \`--draft\``;
  print(command, { role, id, ...done }, `${text}${behindText(done.behind)}`);
}

async function revokeMember(role: MemberRole, id: string, key: string, command: Command): Promise<void> {
  const route = `/v1/members/${role}/${encodeURIComponent(id)}/keys/${encodeURIComponent(key)}`;
  accepted(await localGateway(command, 'local-operator').request('DELETE', route, z.unknown()));
  print(command, { role, id, key, revoked: true }, `${role} ${id}: ${key} is revoked`);
}

async function revokePasskey(credential: string, options: SignOptions, command: Command): Promise<void> {
  const { version, listed } = await revokeApprover(credential, options, command);
  const hosts = !listed
    ? 'no list in force names it'
    : version === undefined
      ? 'hosts keep to the list: sign and publish the next one with `countersign approvers`'
      : `list version ${version}, which hosts keep to, is without it`;
  const value = { role: 'approver', key: credential, revoked: true, version: version ?? null };
  print(command, value, `no gateway takes it any more; ${hosts}`);
}

async function revokeControl(key: string, options: RevokeOptions, command: Command): Promise<void> {
  const roster = await rosterInForce(localGateway(command, 'local-admin'));
  const changed = await changeRoster(withRevoked(roster, key, options.last === true), options, command);
  const text = changed ? `revoked by roster version ${changed.version}` : `sign and publish ${options.draft}`;
  const value = { key, revoked: changed !== undefined, ...changed };
  print(command, value, `${key}: ${text}${behindText(changed?.behind ?? [])}`);
}

const rootOption = () => new Option('--root <file>', "the root's identity file (default: this installation's)");
const draftOption = () =>
  new Option(
    '--draft <file>',
    'only write the next roster there (of approvers: list); then `keys sign` (`approvers sign`) where the root key is, and `keys publish` (`approvers publish`)',
  );
const approversDraftOption = () =>
  new Option(
    '--draft <file>',
    'only write the next list there; then `approvers sign` where the root key is, and `approvers publish`',
  );

function addChanges(keys: Command): void {
  keys
    .command('create <role> <id>')
    .description(
      'make keys of a new `gateway` or `audit` service and name them in the roster; hosts and agents: `enroll`; approvers: at the desk',
    )
    .requiredOption('--out <file>', 'identity file of mode 0600')
    .addOption(rootOption())
    .addOption(draftOption())
    .action((role: string, id: string, options: SignOptions & { out: string }, command: Command) => {
      if (role !== 'gateway' && role !== 'audit') throw usage('keys of `gateway` or `audit` are made here');
      return create(role, id, options, command);
    });
  keys
    .command('rotate <role> <id>')
    .description(
      'new keys for a running `gateway`, `audit`, `host` or `agent`, where its identity file is, or the newly added passkey of an `approver`; the ones before count until the end of the overlap',
    )
    .option('--identity <file>', "its identity file (default: this installation's)")
    .option('--overlap <minutes>', 'how long the keys before still count', '60')
    .option('--gateway <address>', 'http(s) address of the gateway, for a host or agent elsewhere')
    .option('--credential <id>', 'approver: the passkey that takes over, where several were added')
    .option('--wait <minutes>', 'approver: how long to wait for the passkey to be added at the desk', '0')
    .addOption(rootOption())
    .addOption(draftOption())
    .action((role: string, id: string, options: RotateOptions, command: Command) => {
      if (role === 'gateway' || role === 'audit' || role === 'host' || role === 'agent')
        return rotate(role, id, options, command);
      if (role === 'approver') return rotatePasskey(id, options, command);
      throw usage(
        '`role` is gateway, audit, host, agent or approver; keys of the log and the control plane stay for its life',
      );
    });
  const revoke = keys.command('revoke').description('end a key for good, at every gateway and host');
  revoke
    .command('control <key>')
    .description('a key of a gateway or the audit service (`U…`)')
    .option('--last', 'also when it is the last one of its role; everything stops then')
    .addOption(rootOption())
    .addOption(draftOption())
    .action(revokeControl);
  for (const role of ['host', 'agent'] as const)
    revoke
      .command(`${role} <id> <key>`)
      .description(`a key (\`U…\`) of ${role === 'host' ? 'a host' : 'an agent'}`)
      .action((id: string, key: string, _options: object, command: Command) => revokeMember(role, id, key, command));
  revoke
    .command('approver <credential>')
    .description('a passkey, by its credential id; also taken off the list of approvers')
    .addOption(rootOption())
    .addOption(approversDraftOption())
    .action(revokePasskey);
}

/** `countersign keys create | rotate | revoke | list | sign | publish`. */
export function addKeysCommand(program: Command): void {
  const keys = program.command('keys').description('keys of gateways, audit, hosts, agents and approvers');
  keys.command('list').description('every key with its state').action(list);
  addChanges(keys);
  keys
    .command('sign <draft>')
    .description(
      'sign a roster with the organisation root key; needs no network, so do it where the key is; overlaps begin then',
    )
    .requiredOption('--root <file>', "the root's identity file")
    .requiredOption('--out <file>', 'where to write the signed roster')
    .action(async (file: string, { root, out }: { root: string; out: string }, command: Command) => {
      const draft = readRosterDraft(file);
      writePrivateFile(out, await signWithRoot(draft, root));
      const lines = draft.members.map((member) => Object.values(controlLine(member, Date.now())).join('  '));
      print(command, draft, [`version ${draft.version}`, ...lines, `signed: ${out}`].join('\n'));
    });
  keys
    .command('publish <signed>')
    .description('put a signed roster in force; its version never goes back')
    .action(async (file: string, _options: object, command: Command) => {
      const gateway = localGateway(command, 'local-admin');
      const version = await publishRoster(gateway, readFileSync(file), command);
      const behind = await hostsBehind(gateway, version);
      print(command, { version, behind }, `roster version ${version} is in force${behindText(behind)}`);
    });
}
