import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createIdentity } from '@countersign/protocol';
import type { Command } from 'commander';
import { z } from 'zod';
import { installationPath } from '../embedded/data-folder.ts';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
import { enrolWith } from '../enrolment.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { EXIT, print, RefusedError } from '../output.ts';

/** As the gateway bounds them. */
const MAX_HOURS = 168;

type Role = 'host' | 'agent';
type EnrolOptions = { gateway: string; invitation: string; out: string; runAs?: string };
type InviteOptions = {
  principal: string;
  host?: string[];
  root?: string[];
  tool?: string[];
  queue: string[];
  task?: string;
  hours: string;
  out?: string;
};

/** `HOST=FOLDER` pairs as folders by host. */
function rootsOf(pairs: readonly string[]): Record<string, string[]> {
  const roots: Record<string, string[]> = {};
  for (const pair of pairs) {
    const [host = '', folder = ''] = pair.split(/=(.*)/s);
    if (host === '' || !folder.startsWith('/'))
      throw new RefusedError(`\`${pair}\` is not HOST=/FOLDER`, 'countersign.cli.usage', EXIT.usage);
    roots[host] = [...(roots[host] ?? []), folder];
  }
  return roots;
}

async function invite(role: Role, id: string, options: InviteOptions, command: Command): Promise<void> {
  const { principal, host: hosts = [], root = [], tool: tools = [], queue: queues, task = '' } = options;
  const member = { role, id, principal, hosts, roots: rootsOf(root), tools, queues, task };
  const body = { member, hours: wholeNumber(options.hours, '--hours', { most: MAX_HOURS }) };
  const schema = z.object({ id: z.string(), text: z.string(), expiresMs: z.number() });
  const made = accepted(await localGateway(command, 'local-operator').request('POST', '/v1/invitations', schema, body));
  if (options.out === undefined) return print(command, made, made.text);
  writePrivateFile(options.out, `${made.text}\n`);
  print(command, { id: made.id, expiresMs: made.expiresMs }, `${made.id}: written to ${options.out}`);
}

function runAccount(text: string | undefined): { uid: number; gid: number; home: string } | null {
  if (text === undefined) return null;
  const [uid, gid, home = ''] = text.split(':');
  if (!/^[1-9]\d*$/.test(uid ?? '') || !/^[1-9]\d*$/.test(gid ?? '') || !home.startsWith('/'))
    throw new RefusedError('`--run-as` is UID:GID:/HOME', 'countersign.cli.usage', EXIT.usage);
  return { uid: Number(uid), gid: Number(gid), home };
}

/** Configuration of the service or SDK that uses the enrolment. */
function configOf(
  role: Role,
  id: string,
  folder: string,
  joined: { rootKey: string; natsUrl: string },
  runAs?: string,
): object {
  const common = {
    natsUrl: joined.natsUrl,
    identityFile: path.join(folder, 'identity.json'),
    rootKey: joined.rootKey,
    rosterFile: path.join(folder, 'roster.bin'),
  };
  if (role === 'agent') return common;
  return {
    logLevel: 'info',
    ...common,
    host: id,
    journalFile: path.join(folder, 'journal.jsonl'),
    runAs: runAccount(runAs),
    masks: [folder],
    installation: installationPath(),
    maxRunning: 4,
  };
}

async function enroll(role: Role, id: string, options: EnrolOptions, command: Command): Promise<void> {
  const folder = path.resolve(options.out);
  const identityFile = path.join(folder, 'identity.json');
  if (existsSync(identityFile))
    throw new RefusedError(
      `\`${identityFile}\` exists; enrol into an empty folder`,
      'countersign.cli.usage',
      EXIT.usage,
    );
  // SECURITY: from a file, so that it is in no list of processes.
  const invitation = readFileSync(options.invitation === '-' ? 0 : options.invitation, 'utf8').trim();
  const identity = await createIdentity(role, id);
  const joined = await enrolWith(options.gateway, invitation, identity);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writePrivateJson(identityFile, identity);
  writePrivateFile(path.join(folder, 'roster.bin'), joined.roster);
  writePrivateFile(path.join(folder, 'checkpoint'), joined.checkpoint);
  const config = path.join(folder, role === 'host' ? 'runner.json' : 'agent.json');
  writePrivateJson(config, configOf(role, id, folder, joined, options.runAs));
  print(
    command,
    { role, id, publicKey: identity.publicKey, config },
    `${role} ${id}: enrolled; configuration in ${config}`,
  );
}

function addInvite(parent: Command, role: Role): void {
  parent
    .command('invite <id>')
    .description('make a one-time invitation that fixes what it may do; shown once')
    .requiredOption('--principal <person>', 'the person it acts for')
    .option('--host <ids...>', 'hosts it may use')
    .option('--root <pairs...>', 'project folders as HOST=/FOLDER')
    .option('--tool <names...>', 'tools it may call')
    .option('--queue <names...>', 'queues of its calls', ['default'])
    .option('--task <text>', 'what it is for')
    .option('--hours <count>', `valid for so many hours, at most ${MAX_HOURS}`, '24')
    .option('--out <file>', 'write it to a file of mode 0600 instead of showing it')
    .action((id: string, options: InviteOptions, command: Command) => invite(role, id, options, command));
}

function addEnroll(parent: Command, role: Role): Command {
  return parent
    .command('enroll <id>')
    .description('make keys here and enrol them with an invitation')
    .requiredOption('--gateway <address>', 'http(s) address of the gateway')
    .requiredOption('--invitation <file>', 'file that holds the invitation, `-` for standard input')
    .requiredOption('--out <folder>', 'folder for keys and configuration, mode 0700')
    .action((id: string, options: EnrolOptions, command: Command) => enroll(role, id, options, command));
}

/** `countersign runner invite | enroll` and `countersign agent invite | enroll`. */
export function addEnrollCommands(program: Command): void {
  const runner = program.command('runner').description('hosts that run approved calls');
  addInvite(runner, 'host');
  addEnroll(runner, 'host').option('--run-as <account>', 'account of commands as UID:GID:/HOME; absent: your own');
  runner
    .command('confirm-journal <host>')
    .description(
      'take the journal that a host has now, after the one before was lost or set back; until then it gets no work',
    )
    .action(async (host: string, _options: object, command: Command) => {
      const path = `/v1/hosts/${encodeURIComponent(host)}/journal`;
      const gateway = localGateway(command, 'local-operator');
      const { journal } = accepted(await gateway.request('POST', path, z.looseObject({ journal: z.string() })));
      print(command, { host, journal }, `${host} gets work again; its journal is ${journal}`);
    });
  const agent = program.command('agent').description('agents that ask to run tool calls');
  addInvite(agent, 'agent');
  addEnroll(agent, 'agent');
}
