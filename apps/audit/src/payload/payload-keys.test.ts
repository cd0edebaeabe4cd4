import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PayloadKeys, payloadKeyId } from './payload-keys.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'countersign-payload-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const text = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString();

test('a payload opens after a new start, and only as what it is: its call, its part, its session, unchanged', async () => {
  const keys = await PayloadKeys.open(folder);
  await keys.ensure('ses_1');
  await keys.ensure('ses_2');
  const sealed = keys.seal('ses_1', 'call_a', 'call', Buffer.from('secret'));
  const [own, other] = [payloadKeyId('ses_1'), payloadKeyId('ses_2')];
  const again = await PayloadKeys.open(folder);
  expect(text(await again.open(own, 'call_a', 'call', sealed))).toBe('secret');
  const changed = Buffer.from(sealed);
  changed[15] = (changed[15] ?? 0) ^ 1;
  const attempts = [
    again.open(own, 'call_b', 'call', sealed),
    again.open(own, 'call_a', 'result', sealed),
    again.open(other, 'call_a', 'call', sealed),
    again.open(own, 'call_a', 'call', changed),
    again.open(own, 'call_a', 'call', sealed.subarray(0, 10)),
    again.open('../master', 'call_a', 'call', sealed),
  ];
  expect(await Promise.all(attempts)).toEqual(attempts.map(() => undefined));
});

test('no data key lies in the folder unwrapped, and no session name becomes a file name', async () => {
  const keys = await PayloadKeys.open(folder);
  await keys.ensure('../../etc/passwd');
  expect(readdirSync(folder).toSorted()).toEqual([payloadKeyId('../../etc/passwd'), 'master'].toSorted());
  expect(readFileSync(path.join(folder, payloadKeyId('../../etc/passwd'))).length).toBe(12 + 32 + 16);
});

test('data keys without their master key, or with another one, are no start', async () => {
  await (await PayloadKeys.open(folder)).ensure('ses_1');
  const master = path.join(folder, 'master');
  writeFileSync(master, Buffer.alloc(32, 1));
  await expect((await PayloadKeys.open(folder)).ensure('ses_1')).rejects.toThrow(/master key/);
  rmSync(master);
  await expect(PayloadKeys.open(folder)).rejects.toThrow(/is missing; restore it/);
});
