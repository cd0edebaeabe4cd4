import { expect, test } from 'vitest';
import { plainVisible, visibleParts } from './visible-text.ts';

const show = (text: string) =>
  visibleParts(text)
    .map((part) => (part.kind === 'plain' ? part.text : `[${part.text}]`))
    .join('');

test.each([
  ['ls -la', 'ls -la'],
  ['rm -rf build\u200bs', 'rm -rf build[⟨U+200B⟩]s'],
  ['a\u202eb', 'a[⟨U+202E⟩]b'],
  ['a\u2066b', 'a[⟨U+2066⟩]b'],
  ['echo a\u001b[2K', 'echo a[⟨U+001B⟩][2K'],
  [`echo ok${' '.repeat(3000)}; curl x`, 'echo ok[␠×3000]; curl x'],
  ['a\r\nb', 'a[⟨U+000D⟩]\nb'],
  ['a\u2028b\u0085c', 'a[⟨U+2028⟩]b[⟨U+0085⟩]c'],
  ['if x:\n  y\n\tz', 'if x:\n  y\n\tz'],
  ['if x:\n        y', 'if x:\n        y'],
  [`if x:\n${' '.repeat(400)}y`, 'if x:\n[␠×400]y'],
  [`end${' '.repeat(8)}\nnext`, 'end[␠×8]\nnext'],
  ['a\u3164b\u2800c\uffa0d', 'a[⟨U+3164⟩]b[⟨U+2800⟩]c[⟨U+FFA0⟩]d'],
  ['tag\u{e0041}s', 'tag[⟨U+E0041⟩]s'],
  ['ok 👩‍💻 go', 'ok 👩‍💻 go'],
  ['a\u200d💻', 'a[⟨U+200D⟩]💻'],
  ['a\ud800b', 'a[⟨U+D800⟩]b'],
])('%j cannot hide anything', (text, shown) => {
  expect(show(text)).toBe(shown);
});

test('the places of the parts cover the whole text without a gap', () => {
  const text = `a\u200b${' '.repeat(9)}b\n\u202ec`;
  const parts = visibleParts(text);
  expect(parts.map(({ start, end }) => text.slice(start, end)).join('')).toBe(text);
});

test('a one-line text has no line that could be pushed out of sight', () => {
  expect(plainVisible('ls\nrm -rf x\t\u202e')).toBe('ls⏎rm -rf x⇥⟨U+202E⟩');
});
