import { concatBytes, leafHash, rootOfLeaves } from '@countersign/merkle';
import { sha256 } from '@noble/hashes/sha2.js';
import { expect, test } from 'vitest';
import type { Challenge } from '../api/passkeys.ts';
import { approvesWhatIsShown } from './check-challenge.ts';

const text = (bytes: Uint8Array) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const digest = (byte: string) => byte.repeat(64);

/** The challenge as docs/adr/0009 and the gateway have it, written out a second time. */
function hashOf(tag: string, ...parts: Uint8Array[]): Uint8Array {
  const withLength = (part: Uint8Array) => {
    const length = new DataView(new ArrayBuffer(4));
    length.setUint32(0, part.length);
    return concatBytes(new Uint8Array(length.buffer), part);
  };
  return sha256(concatBytes(new TextEncoder().encode(tag), ...parts.map(withLength)));
}

const nonce = new Uint8Array(32).fill(200);

function part(callId: string, viewDigest: string, approver = 'ann') {
  const says = { answer: 'approve', approver, scope: '/srv/ü', view_digest: viewDigest };
  const statement = new TextEncoder().encode(JSON.stringify(says));
  return {
    callId,
    nonce: text(nonce),
    statement: text(statement),
    challenge: hashOf('countersign/approval/v1', nonce, statement),
  };
}

function asked(...parts: ReturnType<typeof part>[]): Challenge {
  const [first] = parts;
  const root = rootOfLeaves(
    sha256,
    parts.map(({ challenge }) => leafHash(sha256, challenge)),
  );
  const challenge = parts.length === 1 && first ? first.challenge : hashOf('countersign/approvals/v1', root);
  const calls = parts.map(({ challenge: _, ...rest }) => rest);
  return { challenge: text(challenge), rpId: 'desk.example', credentialIds: ['AAAA'], calls };
}

const shown = (...ids: string[]) => ids.map((callId) => ({ callId, viewDigest: digest(callId) }));
const both = () => asked(part('1', digest('1')), part('2', digest('2')));

test('what the gateway computes for exactly the shown calls is signed', () => {
  expect(approvesWhatIsShown(asked(part('1', digest('1'))), shown('1'), 'ann')).toBe(true);
  expect(approvesWhatIsShown(both(), shown('1', '2'), 'ann')).toBe(true);
});

test.each<[string, Challenge, { callId: string; viewDigest: string }[]]>([
  ['another view', asked(part('1', digest('9'))), shown('1')],
  ['another person', asked(part('1', digest('1'), 'eve')), shown('1')],
  ['another call', asked(part('2', digest('2'))), shown('1')],
  ['one call more', both(), shown('1')],
  ['one call less', asked(part('1', digest('1'))), shown('1', '2')],
  ['the same call twice', asked(part('1', digest('1')), part('1', digest('1'))), shown('1')],
  ['a challenge that does not follow from the calls', { ...both(), challenge: text(nonce) }, shown('1', '2')],
  [
    'a call hidden in the challenge alone',
    { ...asked(part('1', digest('1')), part('2', digest('2')), part('3', digest('3'))), calls: both().calls },
    shown('1', '2'),
  ],
  [
    'a statement that is not JSON',
    { ...both(), calls: both().calls.map((one) => ({ ...one, statement: 'AAAA' })) },
    shown('1', '2'),
  ],
])('%s is not signed', (_title, challenge, calls) => {
  expect(approvesWhatIsShown(challenge, calls, 'ann')).toBe(false);
});
