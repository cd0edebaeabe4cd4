import { existsSync, readFileSync } from 'node:fs';
import { createIdentity, type RosterMember } from '@countersign/protocol';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { membersSchema } from '../embedded/broker-users.ts';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
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
import { EXIT, print, RefusedError } from '../output.ts';

type RotateOptions = SignOptions & { identity?: string; gateway?: string; overlap: string };
type RevokeOptions = SignOptions & { last?: true };

/** One key as the list shows it. */
type KeyLine = { readonly role: string; readonly id: string; readonly key: string; readonly state: string };

const approversSchema = z.object({
  published: z
    .looseObject({ approvers: z.array(z.looseObject({ person: z.string(), credentialId: z.string() })) })
    .optional(),
});

const usage = (message: string) => new RefusedError(message, 'countersign.cli.usage', EXIT.usage);
const untilText = (untilMs: number, nowMs: number): string =>
  nowMs < untilMs ? `until ${new Date(untilMs).toISOString()}` : 'retired';

const controlLine = ({ role, id, signKey, untilMs, revoked }: RosterMember, nowMs: number): KeyLine => ({
  role,
  id,
  key: signKey,
  state: revoked ? 'revoked' : untilMs === undefined ? 'active' : untilText(untilMs, nowMs),
});

function memberLines(
  { role, id, ...keys }: z.infer<typeof membersSchema>['members'][number],
  nowMs: number,
): KeyLine[] {
  const stateOf = (key: string, otherwise: string) => (keys.revoked.includes(key) ? 'revoked' : otherwise);
  const named = [
    { key: keys.sign_key, state: stateOf(keys.sign_key, 'active') },
    ...keys.previous.map(({ sign_key: key, until_ms }) => ({ key, state: stateOf(key, untilText(until_ms, nowMs)) })),
  ];
  const gone = keys.revoked.filter((key) => !named.some((line) => line.key === key));
  return [...named, ...gone.map((key) => ({ key, state: 'revoked' }))].map((line) => ({ role, id, ...line }));
}

async function list(_options: object, command: Command): Promise<void> {
  const gateway = localGateway(command, 'local-admin');
  const nowMs = Date.now();
  const { version, members } = await rosterInForce(gateway);
  const enrolled = accepted(await gateway.request('GET', '/v1/members', membersSchema));
  const approvers = await gateway.request('GET', '/v1/approver-list', approversSchema);
  const listed = approvers.ok ? (approvers.value.published?.approvers ?? []) : [];
  const keys: KeyLine[] = [
    ...members.map((member) => controlLine(member, nowMs)),
    ...enrolled.members.flatMap((member) => memberLines(member, nowMs)),
    ...listed.map(({ person, credentialId }) => ({ role: 'approver', id: person, key: credentialId, state: 'active' })),
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

async function rotate(role: RosterRole | MemberRole, id: string, options: RotateOptions, command: Command) {
  const overlapMinutes = Number(options.overlap);
  if (!Number.isInteger(overlapMinutes) || overlapMinutes < 1 || overlapMinutes > 10_080)
    throw usage('`--overlap` is a whole number of minutes from 1 to 10080');
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

async function revokeApprover(credential: string, command: Command): Promise<void> {
  const route = `/v1/passkeys/${encodeURIComponent(credential)}`;
  accepted(await localGateway(command, 'local-admin').request('DELETE', route, z.unknown()));
  const text =
    'the gateway takes it no more; sign and publish the next list, which hosts keep to: `countersign approvers draft`';
  print(command, { role: 'approver', key: credential, revoked: true }, text);
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
    'only write the next roster there; then `keys sign` where the root key is, and `keys publish`',
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
      'new keys for a running `gateway`, `audit`, `host` or `agent`, where its identity file is; the ones before count until the end of the overlap',
    )
    .option('--identity <file>', "its identity file (default: this installation's)")
    .option('--overlap <minutes>', 'how long the keys before still count', '60')
    .option('--gateway <address>', 'http(s) address of the gateway, for a host or agent elsewhere')
    .addOption(rootOption())
    .addOption(draftOption())
    .action((role: string, id: string, options: RotateOptions, command: Command) => {
      if (role === 'gateway' || role === 'audit' || role === 'host' || role === 'agent')
        return rotate(role, id, options, command);
      throw usage('`role` is gateway, audit, host or agent; an approver enrols another passkey at the desk');
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
    .description('a passkey, by its credential id')
    .action((credential: string, _options: object, command: Command) => revokeApprover(credential, command));
}

/** `countersign keys create | rotate | revoke | list | sign | publish`. */
export function addKeysCommand(program: Command): void {
  const keys = program.command('keys').description('keys of gateways, audit, hosts, agents and approvers');
  keys.command('list').description('every key with its state').action(list);
  addChanges(keys);
  keys
    .command('sign <draft>')
    .description('sign a roster with the organisation root key; needs no network, so do it where the key is')
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
