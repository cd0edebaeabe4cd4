import { expect, test } from 'vitest';
import type { Call } from '../api/calls.ts';
import { alikeName, filterCalls, nextOf, rowsOf } from './arrange.ts';

const call = (callId: string, facts: Partial<Call> = {}): Call => ({
  callId,
  agent: 'deployer',
  sessionId: 'ses_1',
  host: 'web-1',
  tool: 'bash',
  action: 'execute',
  summary: 'bash git push origin main',
  state: 'pending',
  receivedMs: Number(callId),
  deadlineMs: 10_000_000 - Number(callId),
  ...facts,
});
const ids = (calls: readonly Call[]) => calls.map(({ callId }) => callId).join(' ');
const calls = [call('1'), call('2', { host: 'web-2' }), call('3', { tool: 'write', summary: 'write Notes.md' })];

test.each([
  [{}, '1 2 3'],
  [{ q: 'PUSH web-2' }, '2'],
  [{ q: 'notes push' }, ''],
  [{ host: 'web-1', tool: 'write' }, '3'],
  [{ sort: 'due' }, '3 2 1'],
  [{ sort: 'nonsense' }, '1 2 3'],
  [{ due: true }, ''],
])('the filter %j shows `%s`', (search, shown) => {
  expect(ids(filterCalls(calls, search, 0))).toBe(shown);
});

test('a group holds exactly its calls and stands before them', () => {
  const rows = rowsOf(calls, 'host').map((row) =>
    row.kind === 'group' ? `${row.name}:${row.calls.length}` : row.call.callId,
  );
  expect(rows).toEqual(['web-1:2', '1', '3', 'web-2:1', '2']);
});

test('calls of another program, host, agent or tool are not alike', () => {
  const names = [
    call('1'),
    call('2', { summary: 'bash CI=1 git status' }),
    call('3', { summary: 'bash rm x' }),
    call('4', { host: 'web-2' }),
    call('5', { agent: 'other' }),
    call('6', { tool: 'write' }),
  ].map(alikeName);
  expect([names[0] === names[1], new Set(names).size]).toEqual([true, 5]);
});

test.each([
  ['its next one while it is still there', '1 2 3', 1, '2', '3'],
  ['its next one after it has left', '1 3', 1, '2', '3'],
  ['the one before the last', '1 2', 1, '2', '1'],
  ['the one before the last after that has left', '1', 1, '2', '1'],
  ['none when nothing else waits', '', 0, '1', undefined],
])('after an answered call comes %s', (_name, order, index, answered, next) => {
  const listed = order
    .split(' ')
    .filter(Boolean)
    .map((id) => call(id));
  expect(nextOf({ order: listed, index }, answered)?.callId).toBe(next);
});
