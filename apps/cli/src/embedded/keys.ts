import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { FaultError } from '@countersign/kernel';
import {
  createIdentity,
  type Identity,
  type IdentityFile,
  openIdentity,
  openRoster,
  type RosterMember,
  signRoster,
} from '@countersign/protocol';
import { z } from 'zod';
import type { DataFolder } from './data-folder.ts';
import { writePrivateFile, writePrivateJson } from './private-file.ts';

/** Members of the embedded installation: file name, role, id. */
const MEMBERS = [
  ['root', 'root', 'root'],
  ['gateway', 'gateway', 'gateway'],
  ['gateway-2', 'gateway', 'gateway-2'],
  ['control', 'control', 'control'],
  ['audit', 'audit', 'audit'],
  ['log', 'log', 'log'],
  ['host-local', 'host', 'local'],
  ['agent-sample', 'agent', 'sample'],
] as const;

export type MemberName = (typeof MEMBERS)[number][0];

const ROSTER_ROLES: readonly string[] = ['gateway', 'control', 'audit', 'log'] satisfies RosterMember['role'][];

/** API tokens of the embedded installation, one for each role that its commands need. */
const TOKENS = [
  { name: 'local-operator', role: 'operator' },
  { name: 'local-approver', role: 'approver' },
  { name: 'local-auditor', role: 'auditor' },
  { name: 'local-admin', role: 'admin' },
  /** Of what keeps the broker's accounts, so that no command's requests are counted with its own. */
  { name: 'local-broker', role: 'auditor' },
] as const;

export type TokenName = (typeof TOKENS)[number]['name'];

/** What the gateway keeps of a token. */
export type TokenHash = { readonly name: TokenName; readonly role: string; readonly sha256: string };

export type Keys = {
  readonly identities: Readonly<Record<MemberName, IdentityFile>>;
  readonly identityPath: (member: MemberName) => string;
  readonly rosterFile: string;
  readonly tokenHashes: readonly TokenHash[];
};

async function identityIn(file: string, role: string, id: string): Promise<IdentityFile> {
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as IdentityFile;
  const identity = await createIdentity(role, id);
  writePrivateJson(file, identity);
  return identity;
}

const tokensSchema = z.record(z.string(), z.string().min(32));

/** Path of the file, mode 0600, that holds the API tokens for the command line. */
export const tokensFile = (data: DataFolder): string => path.join(data.private, 'tokens.json');

/** API tokens of the command line. Throws when the installation was never started. */
export const readTokens = (data: DataFolder): Record<string, string> =>
  tokensSchema.parse(JSON.parse(readFileSync(tokensFile(data), 'utf8')));

function makeTokens(data: DataFolder): TokenHash[] {
  const kept = existsSync(tokensFile(data)) ? readTokens(data) : {};
  const tokens = Object.fromEntries(
    TOKENS.map(({ name }) => [name, kept[name] ?? `cst_${randomBytes(32).toString('base64url')}`]),
  );
  writePrivateJson(tokensFile(data), tokens);
  const hash = (name: string) =>
    createHash('sha256')
      .update(tokens[name] ?? '')
      .digest('hex');
  return TOKENS.map(({ name, role }) => ({ name, role, sha256: hash(name) }));
}

/** Signs a roster of the next version when the present one lacks one of these members. What it says of other keys stays. */
function signWhatIsNew(file: string, root: Identity, members: RosterMember[]): void {
  const present = existsSync(file) ? openRoster(readFileSync(file), root.publicKey) : undefined;
  const { version, members: known } = present?.ok ? present.value : { version: 0, members: [] };
  const lacking = members.filter(({ signKey }) => !known.some((member) => member.signKey === signKey));
  if (lacking.length > 0)
    writePrivateFile(file, signRoster(root, { version: version + 1, members: [...known, ...lacking] }));
}

/**
 * Makes the keys that are missing and signs the roster with the root key. Keys that exist are kept. Rejects with a FaultError
 * when a roster is there and the root key that signed it is not. SECURITY: a new root would disown every member.
 */
export async function openKeys(data: DataFolder): Promise<Keys> {
  const identityPath = (member: MemberName) => path.join(data.keys, `${member}.json`);
  const rosterFile = path.join(data.private, 'roster.bin');
  if (existsSync(rosterFile) && !existsSync(identityPath('root')))
    throw new FaultError(
      `the root key \`${identityPath('root')}\` is missing; put it back, or deploy without it here as docs/deploy.md says`,
      { code: 'countersign.cli.no_root_key' },
    );
  const pairs: [MemberName, IdentityFile][] = [];
  for (const [name, role, id] of MEMBERS) pairs.push([name, await identityIn(identityPath(name), role, id)]);
  const identities = Object.fromEntries(pairs) as Record<MemberName, IdentityFile>;
  const members = MEMBERS.filter(([, role]) => ROSTER_ROLES.includes(role)).map(([name, role]) => {
    const { id, publicKey, sealPublicKey } = identities[name];
    return { role: role as RosterMember['role'], id, signKey: publicKey, sealKey: sealPublicKey };
  });
  signWhatIsNew(rosterFile, await openIdentity(identities.root), members);
  return { identities, identityPath, rosterFile, tokenHashes: makeTokens(data) };
}
