import fc from 'fast-check';
import { expect, test } from 'vitest';
import { heldTo, narrowView } from './narrow-view.ts';
import type { View } from './view.ts';

const view: View = {
  reasons: [],
  project: '/p',
  profile: 'networked',
  obligations: {
    deny_read: ['*.env'],
    deny_write: ['**/lock'],
    timeout_ms: 1_000,
    hosts: ['a.example', 'b.example'],
    environment: ['PATH'],
  },
  preconditions: [],
  chain: ['ses_1'],
  offers: {},
};

test('fewer hosts, a shorter time and read-only paths are taken over', () => {
  const narrowed = narrowView(view, { hosts: ['b.example'], timeoutMs: 10, readOnlyPaths: ['src/**'] });
  expect(narrowed).toEqual({
    ok: true,
    value: {
      ...view,
      obligations: { ...view.obligations, deny_write: ['**/lock', 'src/**'], timeout_ms: 10, hosts: ['b.example'] },
    },
  });
});

test.each([
  ['another host', { hosts: ['a.example', 'c.example'] }],
  ['a wildcard host', { hosts: ['*.example'] }],
  ['a longer time', { timeoutMs: 1_001 }],
  ['a path with a control character', { readOnlyPaths: ['a\u001b[2J'] }],
])('%s is refused', (_name, narrowing) => {
  expect(narrowView(view, narrowing).ok).toBe(false);
});

test('whatever is asked for, nothing becomes wider', () => {
  const narrowing = fc.record(
    {
      hosts: fc.array(fc.constantFrom('a.example', 'b.example', 'c.example')),
      timeoutMs: fc.integer({ min: 1, max: 2_000 }),
      readOnlyPaths: fc.array(fc.string({ minLength: 1 })),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(narrowing, (wanted) => {
      for (const { obligations } of [narrowView(view, wanted)]
        .flatMap((made) => (made.ok ? [made.value] : []))
        .concat(heldTo(view, wanted))) {
        expect(obligations.hosts.every((host) => view.obligations.hosts.includes(host))).toBe(true);
        expect(obligations.timeout_ms).toBeLessThanOrEqual(view.obligations.timeout_ms);
        expect(view.obligations.deny_write.every((path) => obligations.deny_write.includes(path))).toBe(true);
        expect(obligations.deny_read).toEqual(view.obligations.deny_read);
      }
    }),
  );
});
