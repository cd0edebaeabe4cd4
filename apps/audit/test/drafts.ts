import type { AppendRequest, EntryDraft } from '@countersign/protocol';

/** A request without what a test does not care for. */
export type Draft = Partial<Parameters<typeof AppendRequest.fromPartial>[0] & object>;

export const text = (value: string): Uint8Array => new TextEncoder().encode(value);
export const json = (value: unknown): Uint8Array => text(JSON.stringify(value));

/** An entry of a call's stream. */
export const entry = (callId: string, type: string, toState = '', body: object = {}, attempt = '1'): EntryDraft => ({
  id: `ent_${callId}_${type}_${attempt}`,
  type,
  stream: callId,
  emittedMs: 1n,
  callId,
  body: json(body),
  toState,
});

/** An entry of another stream. */
export const note = (stream: string, type: string, id: string, body: object = {}): EntryDraft => ({
  ...entry('', type, '', body),
  id,
  stream,
});

/** A new call of agent `sample` on host `local`. */
export const received = (callId: string, facts: object = {}): Draft => ({
  call: {
    callId,
    agent: 'sample',
    sessionId: 'ses_1',
    host: 'local',
    tool: 'bash',
    callDigest: new Uint8Array(32).fill(7),
    sealedPayload: text('sealed'),
    ...facts,
  },
  entries: [entry(callId, 'call.received', 'received')],
});

export const decision = (callId: string, effect: 'allow' | 'deny', decidedBy = 'rule'): Draft => ({
  entries: [entry(callId, 'decision', effect === 'allow' ? 'approved' : 'denied', { decision: { effect } })],
  decidedBy,
  decidedByName: 'r1',
});

export const dispatch = (callId: string, facts: object = {}): Draft => ({
  entries: [entry(callId, 'dispatch.sent', 'dispatched')],
  orderId: `ord_${callId}`,
  orderHost: 'local',
  orderExpiresAtMs: 9_000n,
  ...facts,
});

/** A new version of a session. */
export const session = (version: bigint, value: Uint8Array, id: string, key = 'ses_1'): Draft => ({
  entries: [note(key, 'session.changed', id)],
  documents: [{ kind: 'session', key, value, expectedVersion: version }],
});
