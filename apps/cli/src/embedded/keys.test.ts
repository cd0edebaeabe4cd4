import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openRoster, rosterKey } from '@countersign/protocol';
import { expect, test } from 'vitest';
import { openDataFolder } from './data-folder.ts';
import { openKeys, readTokens } from './keys.ts';

const fresh = () => openDataFolder(path.join(mkdtempSync(path.join(tmpdir(), 'countersign-data-')), 'data'));

test('keys, roster and tokens are kept by a second start, readable by nobody else', async () => {
  const data = fresh();
  const first = await openKeys(data);
  const tokens = readTokens(data);
  const second = await openKeys(openDataFolder(data.root));
  expect(second.identities).toEqual(first.identities);
  expect(readTokens(data)).toEqual(tokens);
  expect(statSync(data.private).mode & 0o777).toBe(0o700);
  const files = readdirSync(data.keys).map((name) => path.join(data.keys, name));
  expect(files.map((file) => statSync(file).mode & 0o777)).toEqual(files.map(() => 0o600));
});

test('no new root takes the place of one that was moved away', async () => {
  const data = fresh();
  const { identityPath, rosterFile } = await openKeys(data);
  const before = readFileSync(rosterFile);
  rmSync(identityPath('root'));
  await expect(openKeys(data)).rejects.toThrow(/root key .* is missing; put it back/);
  expect([existsSync(identityPath('root')), readFileSync(rosterFile).equals(before)]).toEqual([false, true]);
});

test('the roster is signed by the root key and names the control plane keys', async () => {
  const keys = await openKeys(fresh());
  const roster = openRoster(readFileSync(keys.rosterFile), keys.identities.root.publicKey);
  if (!roster.ok) throw new TypeError(roster.error.message);
  expect(rosterKey(roster.value, 'gateway').signKey).toBe(keys.identities.gateway.publicKey);
  expect(rosterKey(roster.value, 'control').sealKey).toBe(keys.identities.control.sealPublicKey);
  expect(openRoster(readFileSync(keys.rosterFile), keys.identities.audit.publicKey).ok).toBe(false);
});

test('the gateway is given hashes, never a token', async () => {
  const data = fresh();
  const keys = await openKeys(data);
  const shown = JSON.stringify(keys.tokenHashes);
  for (const token of Object.values(readTokens(data))) expect(shown).not.toContain(token);
});
