import { randomBytes } from 'node:crypto';
import {
  CallPayload,
  callDigest,
  canonicalEnvelope,
  createIdentity,
  Obligations,
  openIdentity,
  Precondition,
  type Receipt,
  signReceipt,
  termsDigest,
  WorkOrder,
} from '@countersign/protocol';
import { expect, test } from 'vitest';
import { MAX_BEAT_AGE_MS, type OrderCheck, startRefusal, verifyOrder } from './verify-order.ts';

const NOW = 1_700_000_000_000;
const VERSIONS = { rosterVersion: 1, approversVersion: 0 };
const audit = await openIdentity(await createIdentity('audit', 'audit'));
const gateway = await openIdentity(await createIdentity('gateway', 'gateway'));
const encode = (text: string) => new TextEncoder().encode(text);

const callFacts = {
  agent: 'agt',
  callId: 'call_1',
  sessionId: 'ses_1',
  tool: 'bash',
  executor: 'runner',
  deadlineMs: 0,
};
const payload = CallPayload.fromPartial({ salt: randomBytes(32), arguments: encode('{"command":"true"}') });

type Change = {
  order?: Partial<WorkOrder>;
  receipt?: Partial<Receipt>;
  signer?: typeof audit;
  envelope?: Partial<typeof callFacts>;
  payload?: CallPayload;
};

function build(change: Change = {}): WorkOrder {
  const canonical = canonicalEnvelope({ ...callFacts, ...change.envelope });
  const used = change.payload ?? payload;
  const digest = callDigest(used.salt, used.arguments, canonical);
  const terms = {
    project: '/p',
    profile: 'workspace-write',
    obligations: undefined,
    preconditions: [],
    ...change.order,
  };
  const receipt = signReceipt(change.signer ?? audit, {
    callId: 'call_1',
    orderId: 'ord_1',
    host: 'local',
    callDigest: digest,
    entryId: 'ent_1',
    logIndex: 7n,
    leafHash: randomBytes(32),
    decidedBy: 'human',
    assertionsDigest: new Uint8Array(),
    termsDigest: termsDigest(terms),
    ...change.receipt,
  });
  return WorkOrder.fromPartial({
    orderId: 'ord_1',
    callId: 'call_1',
    agent: 'agt',
    sessionId: 'ses_1',
    host: 'local',
    tool: 'bash',
    project: '/p',
    profile: 'workspace-write',
    callDigest: digest,
    expiresAtMs: BigInt(NOW + 120_000),
    receipt,
    canonicalEnvelope: canonical,
    ...change.order,
  });
}

const check = (order: WorkOrder, more: Partial<OrderCheck> = {}): OrderCheck => ({
  envelope: { id: 'env', issuer: gateway.publicKey, issuedAtMs: NOW, sequence: 0n, body: new Uint8Array() },
  order,
  payload,
  host: 'local',
  isAudit: (key) => key === audit.publicKey,
  rosterVersion: 1,
  journal: { createdAtMs: NOW - 1, knowsOrder: false },
  beat: { atMs: NOW, frozenScopes: [], revokedOrders: [], stoppedScopes: [], ...VERSIONS },
  nowMs: NOW,
  ...more,
});

const codeOf = (input: OrderCheck) => {
  const result = verifyOrder(input);
  return result.ok ? 'ok' : `${result.error.code}/${result.error.action}`;
};

test('an order with both signatures, the right digest and a fresh beat may start', () => {
  const result = verifyOrder(check(build()));
  expect(result).toMatchObject({ ok: true, value: { call: { tool: 'bash', args: { command: 'true' } } } });
});

const other = CallPayload.fromPartial({ salt: payload.salt, arguments: encode('{"command":"rm -rf /"}') });
const badArguments = CallPayload.fromPartial({ salt: payload.salt, arguments: encode('{"command":""}') });
const doubleKeys = CallPayload.fromPartial({ salt: payload.salt, arguments: encode('{"command":"a","command":"b"}') });
const noReceipt: WorkOrder = { ...build(), receipt: undefined };
const forgedReceipt = build();
if (forgedReceipt.receipt) forgedReceipt.receipt = { ...forgedReceipt.receipt, logIndex: 8n };

test.each<[string, string, OrderCheck]>([
  ['an order id outside the alphabet', 'malformed_order/discard', check(build({ order: { orderId: 'a.b' } }))],
  ['a short digest', 'malformed_order/discard', check(build({ order: { callDigest: new Uint8Array(31) } }))],
  ['another host', 'wrong_host/refused', check(build({ order: { host: 'other' } }))],
  [
    'an order in the journal',
    'replayed/repeat',
    check(build(), { journal: { createdAtMs: NOW - 1, knowsOrder: true } }),
  ],
  [
    'an order older than the journal',
    'journal_younger/interrupted',
    check(build(), { journal: { createdAtMs: NOW + 1, knowsOrder: false } }),
  ],
  [
    'a repetition of an order that is older than the journal',
    'journal_younger/interrupted',
    check(build({ order: { createdAtMs: BigInt(NOW - 2) } }), {
      journal: { createdAtMs: NOW - 1, knowsOrder: false },
    }),
  ],
  ['no receipt', 'receipt_missing/refused', check(noReceipt)],
  ['a receipt for another order', 'receipt_other_order/refused', check(build({ receipt: { orderId: 'ord_2' } }))],
  ['a receipt for another call', 'receipt_other_call/refused', check(build({ receipt: { callId: 'call_2' } }))],
  ['a receipt for another host', 'receipt_other_host/refused', check(build({ receipt: { host: 'other' } }))],
  [
    'a receipt for other arguments',
    'receipt_other_digest/refused',
    check(build({ receipt: { callDigest: randomBytes(32) } })),
  ],
  ...(
    [
      ['a wider profile', { profile: 'full-access' }],
      ['another project', { project: '/other' }],
      ['fewer denied paths', { obligations: Obligations.fromPartial({ denyRead: [] }) }],
      ['more hosts', { obligations: Obligations.fromPartial({ denyRead: ['*.env'], hosts: ['example.com'] }) }],
      ['a longer time', { obligations: Obligations.fromPartial({ denyRead: ['*.env'], timeoutMs: 9n }) }],
      ['another precondition', { preconditions: [Precondition.fromPartial({ path: '/p/a' })] }],
    ] satisfies [string, Partial<WorkOrder>][]
  ).map(([name, order]): [string, string, OrderCheck] => {
    const recorded = { obligations: Obligations.fromPartial({ denyRead: ['*.env'] }) };
    const { receipt } = build({ order: recorded });
    return [
      `${name} than the receipt binds`,
      'receipt_other_terms/refused',
      check({ ...build({ order: { ...recorded, ...order } }), ...(receipt ? { receipt } : {}) }),
    ];
  }),
  ['a receipt without a decision', 'receipt_undecided/refused', check(build({ receipt: { entryId: '' } }))],
  ['a receipt by the gateway', 'receipt_signature/refused', check(build({ signer: gateway }))],
  ['a receipt changed after signing', 'receipt_signature/refused', check(forgedReceipt)],
  ['a passed expiry', 'expired/expired', check(build({ order: { expiresAtMs: BigInt(NOW) } }))],
  ['no expiry', 'expired/expired', check(build({ order: { expiresAtMs: 0n } }))],
  ['a passed deadline of the call', 'expired/expired', check(build({ envelope: { deadlineMs: NOW } }))],
  ['a payload that does not open', 'payload_unreadable/refused', check(build(), { payload: undefined })],
  ['other arguments', 'digest_mismatch/refused', check(build(), { payload: other })],
  [
    'a call envelope that is not JSON',
    'call_envelope_malformed/refused',
    check(build({ order: { canonicalEnvelope: encode('x') } })),
  ],
  [
    'a call envelope that is not canonical',
    'call_envelope_malformed/refused',
    check(
      build({ order: { canonicalEnvelope: encode(` ${new TextDecoder().decode(canonicalEnvelope(callFacts))}`) } }),
    ),
  ],
  ['a call for another executor', 'call_envelope_malformed/refused', check(build({ envelope: { executor: 'agent' } }))],
  ['another agent', 'call_envelope_differs/refused', check(build({ order: { agent: 'eve' } }))],
  ['another session', 'call_envelope_differs/refused', check(build({ order: { sessionId: 'ses_2' } }))],
  ['another tool', 'call_envelope_differs/refused', check(build({ order: { tool: 'write' } }))],
  [
    'arguments outside the schema',
    'arguments_invalid/refused',
    check(build({ payload: badArguments }), { payload: badArguments }),
  ],
  [
    'arguments with a key twice',
    'arguments_invalid/refused',
    check(build({ payload: doubleKeys }), { payload: doubleKeys }),
  ],
  ['no beat', 'beat_missing/wait', check(build(), { beat: undefined })],
  [
    'a stale beat',
    'beat_stale/wait',
    check(build(), {
      beat: { atMs: NOW - MAX_BEAT_AGE_MS - 1, frozenScopes: [], revokedOrders: [], stoppedScopes: [], ...VERSIONS },
    }),
  ],
  [
    'a roster that this host does not have yet',
    'roster_behind/wait',
    check(build(), {
      beat: { atMs: NOW, frozenScopes: [], revokedOrders: [], stoppedScopes: [], ...VERSIONS, rosterVersion: 2 },
    }),
  ],
  [
    "a receipt of a key of audit's that was revoked",
    'receipt_signature/refused',
    check(build(), { isAudit: () => false }),
  ],
  [
    'a revoked order',
    'revoked/withdrawn',
    check(build(), { beat: { atMs: NOW, frozenScopes: [], revokedOrders: ['ord_1'], stoppedScopes: [], ...VERSIONS } }),
  ],
  ...['all', 'host:local', 'agent:agt', 'session:ses_1', 'something-new'].map((scope): [string, string, OrderCheck] => [
    `the frozen scope ${scope}`,
    'frozen/wait',
    check(build(), { beat: { atMs: NOW, frozenScopes: [scope], revokedOrders: [], stoppedScopes: [], ...VERSIONS } }),
  ]),
])('%s keeps an order from starting', (_title, expected, input) => {
  expect(codeOf(input)).toBe(expected);
});

test('a frozen scope of somebody else does not hold an order back', () => {
  const frozenScopes = ['host:other', 'agent:eve', 'session:ses_2'];
  expect(
    codeOf(check(build(), { beat: { atMs: NOW, frozenScopes, revokedOrders: [], stoppedScopes: [], ...VERSIONS } })),
  ).toBe('ok');
});

test('an order that waited past its expiry expires, whatever the beat', () => {
  const order = build();
  expect(startRefusal({ order, startBeforeMs: NOW }, undefined, NOW, 1)?.action).toBe('expired');
});
