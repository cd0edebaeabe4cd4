import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { passEachStep } from '@countersign/kernel';
import {
  type ApproverList,
  assertionsDigest,
  ERROR_CODES,
  signApproverList,
  signReceipt,
  signRoster,
  statementBytes,
  subjects,
  termsDigest,
  type WorkOrder,
} from '@countersign/protocol';
import { createLogger, loadRoster, type RunningService } from '@countersign/service-kit';
import { SoftwarePasskey } from '@countersign/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startRunner } from '../service.ts';
import { shellTools } from './testing/shell-tools.ts';
import { type OrderChange, TestFleet, until } from './testing/test-fleet.ts';

const RP = 'desk.example';
const ORIGIN = 'https://desk.example';
const fleet = new TestFleet();
const ann = new SoftwarePasskey(RP, ORIGIN);
const eve = new SoftwarePasskey(RP, ORIGIN);
// Pins count only where nobody else may write a folder above them.
const safe = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-stolen-'));
let service: RunningService;

const listOf = (version: number, ...approvers: ApproverList['approvers']): ApproverList => ({
  ...{ version, rpId: RP, origins: [ORIGIN] },
  approvers,
});

beforeAll(async () => {
  await fleet.start();
  const pinsFile = path.join(safe, 'pins.json');
  writeFileSync(pinsFile, JSON.stringify({ version: 1, pins: [{ tools: ['write'], people: 1 }] }), { mode: 0o600 });
  service = await startRunner(
    { ...fleet.config(), pinsFile },
    {
      tools: shellTools,
      clock: { now: Date.now },
      logger: createLogger({ name: 'test', level: 'fatal' }),
      atStep: passEachStep,
      pinOwners: [process.getuid?.() ?? 0],
      onFault: (error) => {
        throw error;
      },
    },
  );
  fleet.gateway.publish(subjects.approvers(), signApproverList(fleet.keys.root, listOf(2, ann.approver('ann'))));
}, 60_000);
afterAll(async () => {
  await service?.stop();
  await fleet.stop();
  rmSync(safe, { recursive: true, force: true });
});

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** How an order that was sent ends: its state and error code, once the host holds it no more. */
async function endOf(change: OrderChange): Promise<{ state: string; code: string }> {
  const { orderId } = await fleet.send(change);
  await fleet.workIsEmpty();
  await until(() => fleet.outcomesOf(orderId).length > 0, 'the host did not answer');
  const { states, outcome } = await fleet.outcomeOf(orderId);
  return { state: states.at(-1) ?? '', code: outcome.code };
}

describe('a stolen gateway key alone runs nothing', () => {
  const refused = { state: 'refused', code: ERROR_CODES.receiptInvalid };

  test.each<[string, () => OrderChange]>([
    ['an order without a receipt', () => ({ receipt: null })],
    ['a receipt that the gateway signed', () => ({ receiptSigner: fleet.keys.gateway })],
    ['a receipt that a stranger signed', () => ({ receiptSigner: fleet.keys.stranger })],
    ["audit's receipt of another order", () => ({ receipt: { orderId: 'ord_other' } })],
    ["audit's receipt of another call", () => ({ receipt: { callId: 'call_other' } })],
    ["audit's receipt of other arguments", () => ({ receipt: { callDigest: randomBytes(32) } })],
    ["audit's receipt for another host", () => ({ receipt: { host: 'elsewhere' } })],
    ["audit's receipt of narrower terms", () => ({ receipt: { termsDigest: randomBytes(32) } })],
  ])('%s', async (_title, change) => {
    expect(await endOf(change())).toEqual(refused);
    expect(existsSync(fleet.marker)).toBe(false);
  });

  test('a roster that makes the thief the audit service is not signed by the root, and changes nothing', async () => {
    const { members } = loadRoster(path.join(fleet.folder, 'roster'), fleet.keys.root.publicKey);
    const thief = { role: 'audit', id: 'audit', signKey: fleet.keys.gateway.publicKey } as const;
    const forged = [...members, { ...thief, sealKey: fleet.keys.gateway.sealPublicKey }];
    fleet.gateway.publish(subjects.roster(), signRoster(fleet.keys.gateway, { version: 9, members: forged }));
    await fleet.gateway.flush();
    expect(await endOf({ receiptSigner: fleet.keys.gateway })).toEqual(refused);
  });
});

describe('a stolen gateway key with control over the record runs nothing that host pins protect', () => {
  const file = path.join(fleet.folder, 'pinned.txt');
  const pinned: OrderChange = { tool: 'write', args: { path: file, content: 'x' } };
  const missing = { state: 'refused', code: ERROR_CODES.assertionsMissing };

  /** An order whose receipt is audit's own and binds these assertions: all that the record can give. */
  async function withAssertions(
    assert: (order: WorkOrder) => WorkOrder['assertions'],
    list?: Uint8Array,
  ): Promise<OrderChange> {
    const { order } = await fleet.order(pinned);
    const assertions = assert(order);
    const { issuer: _i, signature: _s, ...fields } = order.receipt ?? signReceipt(fleet.keys.audit, {} as never);
    const receipt = { ...fields, assertionsDigest: assertionsDigest(assertions) };
    return { ...pinned, order: { ...order, assertions, approverList: list ?? new Uint8Array() }, receipt };
  }

  const signedBy =
    (
      passkey: SoftwarePasskey,
      approver: string,
      change: { callDigest?: string; profile?: string; host?: string } = {},
    ) =>
    (order: WorkOrder) => [
      passkey.assert(
        randomBytes(32),
        statementBytes({
          ...{ answer: 'approve', approver, call_digest: change.callDigest ?? hex(order.callDigest) },
          ...{ expiry_ms: Date.now() + 60_000, hosts: [change.host ?? order.host], not_before_ms: Date.now() - 1_000 },
          ...{ policy_digest: 'p', profile: change.profile ?? order.profile, queue: 'vault', scope: order.project },
          ...{ terms_digest: hex(termsDigest(order)), view_digest: '0'.repeat(64) },
        }),
      ),
    ];

  test.each<[string, () => Promise<OrderChange>]>([
    ['no passkey at all', () => withAssertions(() => [])],
    ['a passkey that the root never listed', () => withAssertions(signedBy(eve, 'ann'))],
    ["somebody else's passkey under a listed name", () => withAssertions(signedBy(eve, 'eve'))],
    ['an approval of another call', () => withAssertions(signedBy(ann, 'ann', { callDigest: '1'.repeat(64) }))],
    ['an approval of another profile', () => withAssertions(signedBy(ann, 'ann', { profile: 'read-only' }))],
    ['an approval for another host', () => withAssertions(signedBy(ann, 'ann', { host: 'elsewhere' }))],
    [
      "an older list of the root's, which still named the passkey",
      () => withAssertions(signedBy(eve, 'eve'), signApproverList(fleet.keys.root, listOf(1, eve.approver('eve')))),
    ],
    [
      'a newer list that the thief signed',
      () => withAssertions(signedBy(eve, 'eve'), signApproverList(fleet.keys.audit, listOf(9, eve.approver('eve')))),
    ],
  ])('%s', async (_title, change) => {
    expect(await endOf(await change())).toEqual(missing);
    expect(existsSync(file)).toBe(false);
  });

  test("the listed person's passkey for exactly this order runs it, and without pins the record's word is enough", async () => {
    expect(await endOf(await withAssertions(signedBy(ann, 'ann')))).toEqual({ state: 'done', code: '' });
    expect(existsSync(file)).toBe(true);
    expect(await endOf({})).toEqual({ state: 'done', code: '' });
  });
});
