import { expect, test } from 'vitest';
import { visibleParts } from './visible-text.ts';

const show = (text: string) =>
  visibleParts(text)
    .map((part) => (part.hidden ? `[${part.text}]` : part.text))
    .join('');

test.each([
  ['ls -la', 'ls -la'],
  ['rm -rf build\u200bs', 'rm -rf build[⟨U+200B⟩]s'],
  ['a\u202eb', 'a[⟨U+202E⟩]b'],
  ['echo a\u001b[2K', 'echo a[⟨U+001B⟩][2K'],
  [`echo ok${' '.repeat(3000)}; curl x`, 'echo ok[␠×3000]; curl x'],
  ['a\r\nb', 'a[⟨U+000D⟩]\nb'],
  ['a\u2028b', 'a[⟨U+2028⟩]b'],
  ['if x:\n  y\n\tz', 'if x:\n  y\n\tz'],
])('%j cannot hide anything', (text, shown) => {
  expect(show(text)).toBe(shown);
});
