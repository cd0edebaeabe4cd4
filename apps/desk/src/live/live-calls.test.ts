import { expect, test } from 'vitest';
import type { Call } from '../api/calls.ts';
import { LiveCalls } from './live-calls.ts';

const call = (callId: string, state = 'pending'): Call => ({
  callId,
  agent: 'a',
  sessionId: 's',
  host: 'h',
  tool: 'bash',
  action: 'execute',
  summary: callId,
  state,
  receivedMs: Number(callId),
  deadlineMs: 0,
});
const ids = (live: LiveCalls) => live.snapshot().calls.map(({ callId }) => callId);
const now = (run: () => void) => run();

test('an answer that arrives while an older list is read does not bring the call back', async () => {
  const { promise, resolve } = Promise.withResolvers<{ calls: readonly Call[]; cut: boolean }>();
  const live = new LiveCalls({ read: () => promise }, now);
  const reading = live.reload();
  live.take({ kind: 'resolved', callId: '1', state: 'denied', by: 'ann' });
  resolve({ calls: [call('1'), call('2')], cut: false });
  await reading;
  expect(ids(live)).toEqual(['2']);
  expect(live.snapshot().ended.get('1')).toEqual({ state: 'denied', by: 'ann' });
});

test('a list that cannot be read leaves every waiting call where it is and says so', async () => {
  let fails = false;
  const read = async () => {
    if (fails) throw new Error('the gateway cannot be reached');
    return { calls: [call('1')], cut: false };
  };
  const live = new LiveCalls({ read }, now);
  await live.reload();
  fails = true;
  await live.reload();
  expect([ids(live), live.snapshot().problem]).toEqual([['1'], 'the gateway cannot be reached']);
});

test('a reset during a read makes one more read, and calls that no longer wait have ended', async () => {
  const lists = [
    [call('1'), call('2')],
    [call('2'), call('3')],
  ];
  let reads = 0;
  const live = new LiveCalls({ read: async () => ({ calls: lists[Math.min(reads++, 1)] ?? [], cut: false }) }, now);
  const first = live.reload();
  live.take({ kind: 'reset' });
  live.take({ kind: 'reset' });
  await first;
  expect([reads, ids(live), live.snapshot().ended.has('1')]).toEqual([2, ['2', '3'], true]);
});

test('only calls that begin to wait after the first list are announced, each once', async () => {
  const live = new LiveCalls({ read: async () => ({ calls: [call('1')], cut: false }) }, now);
  const announced: string[] = [];
  live.onNew(({ callId }) => announced.push(callId));
  await live.reload();
  live.take({ kind: 'call', call: call('1') });
  live.take({ kind: 'call', call: call('2') });
  live.take({ kind: 'call', call: call('2') });
  live.take({ kind: 'call', call: call('3', 'running') });
  expect(announced).toEqual(['2']);
});

test('a call that began to wait while an older list was read has not ended', async () => {
  const { promise, resolve } = Promise.withResolvers<{ calls: readonly Call[]; cut: boolean }>();
  const live = new LiveCalls({ read: () => promise }, now);
  const reading = live.reload();
  live.take({ kind: 'call', call: call('1') });
  resolve({ calls: [], cut: false });
  await reading;
  expect([ids(live), live.snapshot().ended.size]).toEqual([['1'], 0]);
});

test('before the first list arrived nothing is shown, because it would be a part of what waits', () => {
  const live = new LiveCalls({ read: () => new Promise(() => undefined) }, now);
  void live.reload();
  live.take({ kind: 'call', call: call('1') });
  expect([live.snapshot().loaded, ids(live)]).toEqual([false, []]);
});
