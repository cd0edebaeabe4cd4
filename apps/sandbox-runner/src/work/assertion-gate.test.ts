import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { inclusionProof, leafHash, rootOfLeaves } from '@countersign/merkle';
import {
  type ApprovalStatement,
  type ApproverList,
  approvalChallenge,
  approvalTreeChallenge,
  assertionsDigest,
  createIdentity,
  openIdentity,
  type PasskeyAssertion,
  Receipt,
  signApproverList,
  statementBytes,
  termsDigest,
  WorkOrder,
} from '@countersign/protocol';
import { type PasskeyChange, SoftwarePasskey } from '@countersign/testing';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { AssertionGate } from './assertion-gate.ts';
import { KnownApprovers } from './known-approvers.ts';
import type { VerifiedOrder } from './verify-order.ts';

const NOW = Date.now();
const ORIGIN = 'https://desk.example';
const RP = 'desk.example';
const folder = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-pins-'));
const pinsFile = path.join(folder, 'pins.json');
const listFile = path.join(folder, 'approvers');
const root = await openIdentity(await createIdentity('root', 'root'));
const stranger = await openIdentity(await createIdentity('root', 'root'));
const ann = new SoftwarePasskey(RP, ORIGIN);
const bob = new SoftwarePasskey(RP, ORIGIN);
const eve = new SoftwarePasskey(RP, ORIGIN);
const digest = randomBytes(32);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const writePins = (pins: unknown, mode = 0o600) => {
  rmSync(pinsFile, { force: true });
  writeFileSync(pinsFile, typeof pins === 'string' ? pins : JSON.stringify(pins), { mode });
  chmodSync(pinsFile, mode);
};
const pinned = (people = 1, more: object = {}) => ({ version: 1, pins: [{ people, ...more }] });
const listOf = (version: number, approvers = [ann.approver('ann'), bob.approver('bob')]): ApproverList => ({
  ...{ version, rpId: RP, origins: [ORIGIN], approvers },
});

beforeEach(() => {
  rmSync(listFile, { force: true });
  writePins(pinned());
});

let approversInForce = 0;
const gate = () =>
  new AssertionGate({
    pinsFile,
    pinOwners: [process.getuid?.() ?? 0],
    approvers: new KnownApprovers(listFile, root.publicKey),
    approversVersion: () => approversInForce,
    clock: { now: () => NOW },
  });

const base = WorkOrder.fromPartial({
  ...{ orderId: 'ord_1', callId: 'call_1', host: 'web', tool: 'bash', project: '/srv/app', profile: 'workspace-write' },
  callDigest: digest,
});

type Signing = {
  statement?: Partial<ApprovalStatement>;
  passkey?: PasskeyChange;
  by?: SoftwarePasskey;
  person?: string;
};

function assertion(
  { statement = {}, passkey = {}, by = ann, person = 'ann' }: Signing = {},
  order = base,
): PasskeyAssertion {
  const full: ApprovalStatement = {
    answer: 'approve',
    approver: person,
    call_digest: hex(order.callDigest),
    expiry_ms: NOW + 60_000,
    hosts: [order.host],
    not_before_ms: NOW - 1_000,
    policy_digest: 'p',
    profile: order.profile,
    queue: 'payments',
    scope: order.project,
    terms_digest: hex(termsDigest(order)),
    view_digest: '0'.repeat(64),
    ...statement,
  };
  return by.assert(randomBytes(32), statementBytes(full), passkey);
}

type OrderChange = {
  order?: Partial<WorkOrder>;
  list?: Uint8Array;
  bound?: Uint8Array;
  args?: object;
  executed?: Uint8Array;
};

function verified(assertions: PasskeyAssertion[], change: OrderChange = {}): VerifiedOrder {
  const order = WorkOrder.fromPartial({
    ...base,
    assertions,
    approverList: change.list ?? signApproverList(root, listOf(1)),
    receipt: Receipt.fromPartial({ assertionsDigest: change.bound ?? assertionsDigest(assertions) }),
    ...change.order,
  });
  const call = { tool: 'bash', args: { command: 'true', ...change.args } } as VerifiedOrder['call'];
  return { order, call, executedDigest: change.executed ?? digest, startBeforeMs: NOW + 60_000 };
}

const refusal = (assertions: PasskeyAssertion[], change: OrderChange = {}) =>
  gate().refusal(verified(assertions, change));

test('a pinned order starts with the passkey of one listed person', () => {
  expect(refusal([assertion()])).toBe(undefined);
});

test('a replaced passkey starts a pinned order until the end of its overlap, to the millisecond', () => {
  const until = (untilMs: number) => ({
    list: signApproverList(root, listOf(1, [{ ...ann.approver('ann'), untilMs }, bob.approver('bob')])),
  });
  expect(refusal([assertion()], until(NOW + 1))).toBe(undefined);
  rmSync(listFile);
  expect(refusal([assertion()], until(NOW))).toMatch(/was replaced by another one/);
});

test('one signature over several orders starts each of them, and none that was not among them', () => {
  const sha = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
  const other = { ...base, orderId: 'ord_2', callDigest: new Uint8Array(32).fill(7) };
  const parts = [assertion(), assertion({}, other)];
  const leaves = parts.map((part) => leafHash(sha, approvalChallenge(part.nonce, part.statement)));
  const root = rootOfLeaves(sha, leaves);
  const [one, two] = parts.map(({ nonce, statement }, index) =>
    ann.assert(nonce, statement, {
      challenge: approvalTreeChallenge(root),
      tree: { index, size: 2, path: [...inclusionProof(sha, leaves, index, 2)], root },
    }),
  ) as [PasskeyAssertion, PasskeyAssertion];
  expect(refusal([one])).toBe(undefined);
  expect(refusal([two])).toMatch(/another call/);
  expect(refusal([two], { order: { callDigest: other.callDigest }, executed: other.callDigest })).toBe(undefined);
  expect(refusal([{ ...one, tree: two.tree }])).toMatch(/not among those/);
  const alone = { ...one, tree: { index: 0, size: 1, path: [], root: leaves[0] ?? root } };
  expect(refusal([alone])).toMatch(/not one that a person was shown/);
  expect(refusal([{ ...one, tree: undefined }])).toMatch(/signed something else/);
});

test('an approval of a moment ago holds on a host whose clock is as far behind as a ready one may be', () => {
  expect(refusal([assertion({ statement: { not_before_ms: NOW + 5_000 } })])).toBe(undefined);
  expect(refusal([assertion({ statement: { expiry_ms: NOW + 1 } })])).toBe(undefined);
});

test('while a newer list of approvers is in force, a pinned order waits and another one starts', () => {
  approversInForce = 2;
  expect(refusal([assertion()])).toBe('wait');
  expect(refusal([assertion()], { list: signApproverList(root, listOf(2)) })).toBe(undefined);
  writePins({ version: 1, pins: [] });
  rmSync(listFile, { force: true });
  expect(refusal([])).toBe(undefined);
  approversInForce = 0;
});

test.each<[string, RegExp, () => string | undefined]>([
  ['no passkey', /1 different people/, () => refusal([])],
  [
    'passkeys that the record does not hold',
    /record holds other/,
    () => refusal([assertion()], { bound: new Uint8Array() }),
  ],
  [
    'passkeys that were taken off the order',
    /record holds other/,
    () => refusal([], { bound: assertionsDigest([assertion()]) }),
  ],
  ['a passkey that is not listed', /not on the signed/, () => refusal([assertion({ by: eve })])],
  ['a passkey of another person', /another person/, () => refusal([assertion({ by: bob })])],
  [
    'an approval of another call',
    /another call/,
    () => refusal([assertion({ statement: { call_digest: 'a'.repeat(64) } })]),
  ],
  [
    'arguments that were swapped after the approval',
    /another call/,
    () => refusal([assertion()], { executed: randomBytes(32) }),
  ],
  [
    'a wider profile than was approved',
    /other terms/,
    () => refusal([assertion()], { order: { profile: 'full-access' } }),
  ],
  [
    'an approval of another profile',
    /another profile/,
    () => refusal([assertion({ statement: { profile: 'networked' } })]),
  ],
  [
    'an approval of other terms',
    /other terms/,
    () => refusal([assertion({ statement: { terms_digest: 'a'.repeat(64) } })]),
  ],
  ['an approval of another project', /another project/, () => refusal([assertion({ statement: { scope: '/' } })])],
  ['an approval for another host', /another host/, () => refusal([assertion({ statement: { hosts: ['db'] } })])],
  ['an approval that has expired', /at this time/, () => refusal([assertion({ statement: { expiry_ms: NOW } })])],
  [
    'an approval that does not hold yet',
    /at this time/,
    () => refusal([assertion({ statement: { not_before_ms: NOW + 5_001 } })]),
  ],
  ['another page', /another page/, () => refusal([assertion({ passkey: { origin: 'https://evil.example' } })])],
  [
    'a frame inside another page',
    /inside another page/,
    () => refusal([assertion({ passkey: { crossOrigin: true } })]),
  ],
  ['another domain', /another domain/, () => refusal([assertion({ passkey: { rpId: 'evil.example' } })])],
  ['a user who was not verified', /verify its user/, () => refusal([assertion({ passkey: { flags: 0x01 } })])],
  [
    'a registration instead of an assertion',
    /malformed/,
    () => refusal([assertion({ passkey: { type: 'webauthn.create' } })]),
  ],
  [
    'a challenge of something else',
    /something else/,
    () => refusal([assertion({ passkey: { challenge: randomBytes(32) } })]),
  ],
  [
    'a changed statement',
    /something else/,
    () => {
      const good = assertion();
      return refusal([{ ...good, statement: assertion({ statement: { queue: 'shop' } }).statement }]);
    },
  ],
  [
    'a statement with a field too many',
    /canonical form/,
    () => {
      const good = assertion();
      const text = Buffer.from(good.statement).toString().replace('{', '{"zz":1,');
      return refusal([{ ...good, statement: Buffer.from(text) }]);
    },
  ],
  [
    'a changed signature',
    /signature does not/,
    () => {
      const good = assertion();
      const signature = Uint8Array.from(good.signature, (byte, at) => (at === 20 ? byte ^ 1 : byte));
      return refusal([{ ...good, signature }]);
    },
  ],
  [
    'a list that the root did not sign',
    /no signed list/,
    () => refusal([assertion()], { list: signApproverList(stranger, listOf(9)) }),
  ],
  ['no list', /no signed list/, () => refusal([assertion()], { list: new Uint8Array() })],
])('%s starts nothing on a pinned host', (_title, message, attempt) => {
  expect(attempt()).toMatch(message);
});

test('pins that ask for two people are not met by two passkeys of one', () => {
  writePins(pinned(2));
  const second = new SoftwarePasskey(RP, ORIGIN);
  const list = signApproverList(root, listOf(1, [ann.approver('ann'), second.approver('ann'), bob.approver('bob')]));
  expect(refusal([assertion(), assertion({ by: second })], { list })).toMatch(/2 different people .* 1 did/);
  expect(refusal([assertion(), assertion()], { list })).toMatch(/1 did/);
  expect(refusal([assertion(), assertion({ by: bob, person: 'bob' })], { list })).toBe(undefined);
});

test('the approver list never goes back, also over a restart', () => {
  const newer = signApproverList(root, listOf(2, [bob.approver('bob')]));
  expect(refusal([assertion({ by: bob, person: 'bob' })], { list: newer })).toBe(undefined);
  expect(refusal([assertion()], { list: signApproverList(root, listOf(1)) })).toMatch(/not on the signed/);
  writeFileSync(listFile, signApproverList(stranger, listOf(5)));
  expect(() => gate()).toThrow(/refused/);
});

describe('which orders are pinned', () => {
  test.each<[string, object, OrderChange, boolean]>([
    ['every order', {}, {}, true],
    ['a tool', { tools: ['bash'] }, {}, true],
    ['another tool', { tools: ['write'] }, {}, false],
    ['a profile', { profiles: ['workspace-write'] }, {}, true],
    ['another profile', { profiles: ['full-access'] }, {}, false],
    ['the project', { paths: ['/srv/app'] }, {}, true],
    ['a folder above the project', { paths: ['/srv'] }, {}, true],
    ['a folder whose name begins alike', { paths: ['/srv/ap'] }, {}, false],
    ['another folder', { paths: ['/etc'] }, {}, false],
    ['a path of the arguments', { paths: ['/etc'] }, { args: { path: '../../etc/passwd' } }, true],
    ['a working folder', { paths: ['/etc'] }, { args: { cwd: '/etc/x' } }, true],
    ['tool and profile together', { tools: ['bash'], profiles: ['full-access'] }, {}, false],
  ])('%s', (_title, pin, change, isPinned) => {
    writePins(pinned(1, pin));
    expect(refusal([], change) !== undefined).toBe(isPinned);
  });

  test('a host without pins needs no passkey, and says that it has none', () => {
    rmSync(pinsFile);
    expect([refusal([]), gate().notReady(), gate().classes()]).toEqual([undefined, '', -1]);
  });
});

describe('pins that are there and not as expected keep the host from being ready', () => {
  test.each<[string, () => void]>([
    ['no JSON', () => writePins('{')],
    ['an unknown field', () => writePins({ version: 1, pins: [{ people: 1, tool: 'bash' }] })],
    ['another version', () => writePins({ version: 2, pins: [] })],
    ['no people', () => writePins({ version: 1, pins: [{ people: 0 }] })],
    ['a relative path', () => writePins(pinned(1, { paths: ['srv'] }))],
    ['a file that others may write', () => writePins(pinned(), 0o666)],
    [
      'a folder in its place',
      () => {
        rmSync(pinsFile);
        mkdirSync(pinsFile);
      },
    ],
    [
      'a link in its place',
      () => {
        rmSync(pinsFile);
        writeFileSync(`${pinsFile}.real`, JSON.stringify(pinned()), { mode: 0o600 });
        symlinkSync(`${pinsFile}.real`, pinsFile);
      },
    ],
  ])('%s', (_title, prepare) => {
    prepare();
    expect(gate().notReady()).not.toBe('');
    expect(refusal([assertion()])).not.toBe(undefined);
    rmSync(pinsFile, { recursive: true, force: true });
  });

  test('a folder above them that others may write', () => {
    chmodSync(folder, 0o777);
    expect(gate().notReady()).toMatch(/can be written by others/);
    chmodSync(folder, 0o700);
  });

  test('an owner who is not root', () => {
    const strict = new AssertionGate({
      pinsFile,
      pinOwners: [],
      approvers: new KnownApprovers(listFile, root.publicKey),
      approversVersion: () => 0,
      clock: { now: () => NOW },
    });
    expect(strict.notReady() === '').toBe(process.getuid?.() === 0);
  });
});
