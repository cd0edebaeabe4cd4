import fc from 'fast-check';
import { expect, test } from 'vitest';
import { textSegments } from './text-segments.ts';

test('words and stretches are told apart around hidden characters', () => {
  const segments = textSegments(
    'git pu\u200bsh',
    [
      { start: 0, end: 3, kind: 'program' },
      { start: 4, end: 9, kind: 'word' },
    ],
    [{ start: 0, end: 9, effect: 'ask', number: 1 }],
  );
  expect(segments.map(({ text, token, opens }) => [text, token, opens])).toEqual([
    ['git', 'program', true],
    [' ', undefined, false],
    ['pu', 'word', false],
    ['⟨U+200B⟩', 'word', false],
    ['sh', 'word', false],
  ]);
});

test('whatever the places are, the whole text is shown once and in order', () => {
  const place = fc.record({ start: fc.nat(30), end: fc.nat(30), kind: fc.constant('word') });
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 20 }), fc.array(place, { maxLength: 6 }), (text, tokens) => {
      const shown = textSegments(text, tokens, [{ start: 2, end: 7, effect: 'deny', number: 1 }]);
      const plain = textSegments(text);
      expect(shown.map((segment) => segment.text).join('')).toBe(plain.map((segment) => segment.text).join(''));
    }),
  );
});
