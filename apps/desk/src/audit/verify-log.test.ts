import { expect, test } from 'vitest';
import { readExport, readPublicKey, verifyLog } from './verify-log.ts';

test('a public key is read only when its check sum fits', () => {
  const key = 'UA7U5SRRR54TOUCGMSUTNQFOQEL2GNEJDTLQ2OEHLV73UWIDVI3NQXDB';
  const wrong = `${key.slice(0, 20)}${key[20] === 'A' ? 'B' : 'A'}${key.slice(21)}`;
  expect([readPublicKey(wrong), readPublicKey('U'), readPublicKey('')]).toEqual([undefined, undefined, undefined]);
});

test('an export with a line that is no leaf, and a text that is no key, are refused', async () => {
  expect(() => readExport('{"leaf":1}\n')).toThrow('holds no leaf');
  await expect(verifyLog('', 'UNOKEY', '')).rejects.toThrow('not a public key');
});
