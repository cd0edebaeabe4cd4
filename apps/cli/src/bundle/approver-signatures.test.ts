import type { AuditEntry } from '@countersign/merkle';
import { PasskeyAssertion, statementBytes } from '@countersign/protocol';
import { SoftwarePasskey } from '@countersign/testing';
import { describe, expect, test } from 'vitest';
import { ApproverSignatures, passkeyName } from './approver-signatures.ts';

const [RP, ORIGIN] = ['desk.example', 'https://desk.example'];
const [CALL, VIEW] = ['a'.repeat(64), 'b'.repeat(64)];
const NOW = 1_000_000;
const key = new SoftwarePasskey(RP, ORIGIN);
const other = new SoftwarePasskey(RP, ORIGIN);

const STATEMENT = {
  ...{ answer: 'approve' as const, approver: 'ann', call_digest: CALL, view_digest: VIEW, expiry_ms: NOW + 60_000 },
  ...{ hosts: ['local'], not_before_ms: 0, policy_digest: '', profile: '', queue: '', scope: '/p', terms_digest: VIEW },
};
const encoded = (assertion: PasskeyAssertion) =>
  Buffer.from(PasskeyAssertion.encode(assertion).finish()).toString('base64');
const signed = (statement: object = {}, change: Parameters<SoftwarePasskey['assert']>[2] = {}, by = key) =>
  encoded(by.assert(new Uint8Array(32), statementBytes({ ...STATEMENT, ...statement }), change));

const base = {
  version: 1,
  id: 'e',
  tenant: 'org',
  stream: 's',
  stream_seq: 0,
  prev: null,
  emitted_ms: NOW,
  recorded_ms: NOW,
} as const;
const admin = (what: string, detail: object) =>
  ({ type: 'admin.changed', detail: { what, by: 'ann', ...detail } }) as const;
const lineOf = (passkey: SoftwarePasskey, person: string) => {
  const { credentialId, key: jwk } = passkey.approver(person);
  return { person, credential: credentialId, label: 'x', key: jwk };
};
const added = (passkey = key, person = 'ann') => admin('passkey.added', lineOf(passkey, person));
const removed = admin('passkey.removed', { person: 'ann', credential: lineOf(key, 'ann').credential });
const listed = (passkeys = [key], more: object = {}) =>
  admin('approver_list.published', {
    ...{ version: 1, rp_id: RP, origins: [ORIGIN], ...more },
    credentials: passkeys.map((passkey) => passkeyName(passkey.approver('').credentialId)),
  });
const received = { type: 'call.received', call: 'c', tool: { args_commitment: CALL } } as const;
const answered = (assertion: string, approver: object = {}) =>
  ({
    type: 'approval.answered',
    call: 'c',
    approver: { subject: 'ann', shown: VIEW, assertion, ...approver },
  }) as const;

/** What reading these entries in order finds. */
function read(entries: readonly (Pick<AuditEntry, 'type'> & Partial<AuditEntry>)[]) {
  const signatures = new ApproverSignatures();
  const found = entries.flatMap((entry, index) =>
    signatures.take({ ...base, index, ...entry }).map(({ message }) => [index, message]),
  );
  return { found, verified: signatures.verified };
}

test('a signature over what the entries say, by a passkey enrolled and listed before, verifies', () => {
  expect(read([added(), listed(), received, answered(signed())])).toEqual({ found: [], verified: 1 });
  expect(read([added(), listed(), received, answered(signed()), removed])).toEqual({ found: [], verified: 1 });
});

describe('found at its entry', () => {
  const good = [added(), listed(), received] as const;
  const until = { replaced: [{ credential: lineOf(key, 'ann').credential, until_ms: NOW - 60_000 }] };
  test.each([
    [
      'a signature of another key under the same id',
      [
        admin('passkey.added', { ...lineOf(other, 'ann'), credential: lineOf(key, 'ann').credential }),
        listed(),
        received,
        answered(signed()),
      ],
      'does not verify',
    ],
    ['a passkey that was never enrolled', [listed(), received, answered(signed())], 'not enrolled'],
    ['a passkey that was removed before', [added(), listed(), removed, received, answered(signed())], 'not enrolled'],
    ['a passkey enrolled only afterwards', [listed(), received, answered(signed()), added()], 'not enrolled'],
    ['a passkey that no list names', [added(), listed([other]), received, answered(signed())], 'not on the list'],
    ['an answer before any list', [added(), received, answered(signed())], 'before a list'],
    ['a passkey whose overlap had ended', [added(), listed([key], until), received, answered(signed())], 'replaced'],
    ['a passkey of another person', [added(key, 'bob'), listed(), received, answered(signed())], 'another person'],
    ['an entry that names somebody else', [...good, answered(signed(), { subject: 'bob' })], 'another person'],
    ['another view', [...good, answered(signed(), { shown: 'c'.repeat(64) })], 'another view'],
    [
      'another call',
      [added(), listed(), { ...received, tool: { args_commitment: 'd'.repeat(64) } }, answered(signed())],
      'another call',
    ],
    [
      'a statement that was changed',
      [...good, answered(signed({}, { challenge: new Uint8Array(32) }))],
      'something else',
    ],
    ['another domain', [...good, answered(signed({}, { rpId: 'evil.example' }))], 'another domain'],
    ['another page', [...good, answered(signed({}, { origin: 'https://evil.example' }))], 'another page'],
    [
      'a passkey that did not verify its user',
      [...good, answered(signed({}, { flags: 0x01 }))],
      'did not verify its user',
    ],
    ['an expired statement', [...good, answered(signed({ expiry_ms: NOW - 60_000 }))], 'expired'],
    ['bytes that are no signature', [...good, answered('no signature')], 'cannot be read'],
  ] as const)('%s', (_what, entries, message) => {
    const { found, verified } = read(entries);
    expect([found.length, verified]).toEqual([1, 0]);
    expect(found[0]?.[0]).toBe(entries.findIndex(({ type }) => type === 'approval.answered'));
    expect(found[0]?.[1]).toMatch(new RegExp(message));
  });
});
