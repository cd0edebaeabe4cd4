import { expect, test } from 'vitest';
import type { Session } from '../api/sessions.ts';
import { treeOf } from './session-tree.ts';

const session = (id: string, parent?: string): Session => ({
  ...{ id, agent: 'a', principal: 'p', host: 'h', project: '/p', permissionMode: 'dev', approvalMode: 'manual' },
  ...{ eternal: false, state: 'open', requestText: '' },
  ...(parent === undefined ? {} : { parent }),
});

test('every session stands once, below the one that opened it; one whose parent is unknown stands at the top', () => {
  const rows = treeOf([session('c', 'a'), session('a'), session('d', 'c'), session('b', 'gone')], [], []);
  expect(rows.map(({ session: { id }, depth }) => [id, depth])).toEqual([
    ['a', 0],
    ['c', 1],
    ['d', 2],
    ['b', 0],
  ]);
});
