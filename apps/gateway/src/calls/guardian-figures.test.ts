import { expect, test } from 'vitest';
import { type Comparison, compared, type Figures, KEPT, newFigures, rateOf } from './guardian-figures.ts';

const RULE = { least: 0.9, fromComparisons: 4 };
const none = newFigures({ version: 'p/m@1', provider: 'p', model: 'm', promptVersion: '1' });
const one = (
  opinion: 'approve' | 'deny',
  human: 'approved' | 'denied',
  change: Partial<Comparison> = {},
): Comparison => ({
  ...{ call: 'call_a', session: 'ses_a', agent: 'agt', queue: 'default', tool: 'write', summary: 'write a', by: 'ann' },
  ...{ reason: 'r', atMs: 1, failed: false, opinion, human },
  ...change,
});
const after = (list: readonly Comparison[], from: Figures = none): Figures =>
  list.reduce((figures, next) => compared(figures, next, RULE), from);

test('both ways to differ are counted apart, and differing calls are kept newest first', () => {
  const figures = after([
    one('approve', 'approved'),
    one('deny', 'denied'),
    one('approve', 'denied', { call: 'call_b' }),
    one('deny', 'approved', { call: 'call_c' }),
  ]);
  expect(figures).toMatchObject({ compared: 4, agreed: 2, approvedButDenied: 1, deniedButApproved: 1, failed: 0 });
  expect(figures.disagreements.map(({ call }) => call)).toEqual(['call_c', 'call_b']);
  expect(rateOf(figures)).toBe(0.5);
});

test('an opinion without a verdict is no agreement and no disagreement', () => {
  expect(after([one('deny', 'denied', { failed: true })])).toMatchObject({ compared: 0, failed: 1, recent: [] });
});

test('a demotion is proposed below the threshold, but not on too few comparisons, and never made', () => {
  const low = [one('approve', 'denied'), one('approve', 'approved'), one('approve', 'approved')];
  expect(after(low).proposal).toBeUndefined();
  expect(after([...low, one('approve', 'approved')])).toMatchObject({
    proposal: { rate: 0.75, compared: 4 },
    standing: 'deciding',
  });
});

test('a proposal falls when the threshold is met again, and an advising model gets none', () => {
  const low = after([one('approve', 'denied'), ...Array.from({ length: 3 }, () => one('deny', 'denied'))]);
  expect(low.proposal).toBeDefined();
  const better = after(
    Array.from({ length: 9 }, () => one('deny', 'denied')),
    low,
  );
  expect(better.proposal).toBeUndefined();
  const advising = after([one('approve', 'denied')], { ...low, standing: 'advising' });
  expect(advising.proposal).toBeUndefined();
});

test('what is kept is bounded', () => {
  const figures = after(Array.from({ length: KEPT + 20 }, () => one('approve', 'denied')));
  expect([figures.recent.length, figures.disagreements.length, figures.compared]).toEqual([KEPT, KEPT, KEPT + 20]);
});
