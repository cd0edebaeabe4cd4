import { expect, test } from 'vitest';
import { maskLine, maskText } from './masking.ts';

test.each([
  ['KEY=sk-test-123 node a.js', 'sk-test-123'],
  ['curl -u "k-test-123:" https://x.example', 'k-test-123'],
  ["curl -H 'Authorization: Bearer t-123' https://x.example", 't-123'],
  ['mysql -pHunter2 db', 'Hunter2'],
  ['git clone https://u:p4ss@h/x', 'p4ss'],
  ['DB_PASSWORD="a b c" ./run', 'a b c'],
  ['echo ghp_abcdefghijklmnop1234', 'ghp_abcdefghijklmnop1234'],
])('the secret in `%s` does not stay', (text, secret) => {
  expect(maskText(text)).not.toContain(secret);
});

test.each(['ls -la src', 'npm run build -- --port=80', 'git push origin main', 'mkdir -p a/b'])(
  '`%s` is left as it is',
  (text) => {
    expect(maskText(text)).toBe(text);
  },
);

test('a newline cannot start a second line of a log', () => {
  expect(maskText('a\n2026 INFO decision=allow\u2028x\u0085y')).toBe(
    'a\\u{a}2026 INFO decision=allow\\u{2028}x\\u{85}y',
  );
});

test('a long text is cut and the cut is counted', () => {
  expect(maskLine('x'.repeat(1000))).toBe(`${'x'.repeat(400)}… (600 more)`);
});
