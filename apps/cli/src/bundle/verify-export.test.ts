import { createIdentity } from '@countersign/protocol';
import { expect, test } from 'vitest';
import { verifyExport } from './verify-export.ts';

const verify = async (text: string) => {
  const { publicKey } = await createIdentity('log', 'log');
  const { problems } = verifyExport(text, { publicKey, name: 'log' });
  return problems.map(({ index, code }) => `${code}@${index}`);
};
const leaf = (text: string) => JSON.stringify({ leaf: Buffer.from(text).toString('base64') });

test('a damaged line is a problem at its index', async () => {
  expect(await verify(`{"lfaf":"e30="}\n${JSON.stringify({ checkpoint: 'x' })}\n`)).toContain('bad_field@0');
  expect(await verify(`${leaf('{}')}\nnot json\n${JSON.stringify({ checkpoint: 'x' })}\n`)).toContain('not_json@1');
});

test('an export without its checkpoint is a problem of the whole log', async () => {
  expect(await verify(`${leaf('{}')}\n`)).toContain('malformed_note@null');
});

test('an export with nothing in it is a problem of the whole log', async () => {
  expect(await verify('\n')).toEqual(['malformed_note@null']);
});
