import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { type GuardianUnderTest, guardianUnderTest, KINDS } from '../../test/guardian-under-test.ts';
import {
  type Asked,
  completionBody,
  type Script,
  say,
  send,
  startEndpoint,
  verdict,
} from '../../test/scripted-endpoint.ts';

const APPROVE = verdict('approve', 'runs the tests');

const status =
  (code: number, headers = {}): Script =>
  (_asked, response) =>
    send(response, '{"error":{"message":"no"}}', code, headers);

const changed =
  (openai: object, anthropic: object): Script =>
  (asked, response) =>
    send(response, completionBody(asked, APPROVE, (asked.protocol === 'anthropic' ? anthropic : openai) as never));

const LATER = new Date(Date.now() + 3_600_000).toUTCString();

const raw =
  (change: (body: string, asked: Asked) => string | Uint8Array, headers = {}): Script =>
  (asked, response) =>
    send(response, change(completionBody(asked, APPROVE), asked), 200, headers);

const choice = (message: object, finish = 'stop') => ({
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }],
});

function drip(response: ServerResponse, body: string): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
  let at = 0;
  const timer = setInterval(() => response.write(body[at++] ?? ''), 40);
  response.on('close', () => clearInterval(timer));
}

function endless(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  const timer = setInterval(() => response.write(' '.repeat(65_536)), 5);
  response.on('close', () => clearInterval(timer));
}

const half: Script = (asked, response) => {
  const body = completionBody(asked, APPROVE);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
  response.write(body.slice(0, body.length / 2), () => response.socket?.destroy());
};

/** Serves streamed requests only, as some endpoints do. */
const streamsOnly: Script = (asked, response, turn) =>
  asked.body.stream === true ? say(APPROVE)(asked, response, turn) : status(400)(asked, response, turn);

/** Bytes on the connection itself, before any header was sent. */
const onTheWire =
  (text: string, more?: () => string): Script =>
  (_asked, response) => {
    const { socket } = response;
    socket?.write(text);
    if (!more) return void socket?.end();
    const timer = setInterval(() => socket?.write(more()), 40);
    socket?.on('close', () => clearInterval(timer));
  };

const cutChunks: Script = (asked, response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write(completionBody(asked, APPROVE), () => response.socket?.destroy());
};

type Case = readonly [title: string, category: string, requests: number, script: Script];

const TRANSPORT: readonly Case[] = [
  ['hangs', 'timed_out', 1, () => undefined],
  ['sends one byte now and then', 'timed_out', 1, (asked, response) => drip(response, completionBody(asked, APPROVE))],
  ['resets the connection', 'unavailable', 3, (_asked, response) => response.socket?.resetAndDestroy() as never],
  ['sends its headers without end', 'timed_out', 1, onTheWire('HTTP/1.1 200 OK\r\nx: ', () => 'x')],
  ['closes the connection without a word', 'unavailable', 3, (_asked, response) => void response.socket?.end()],
  ['does not speak HTTP', 'unavailable', 3, onTheWire(`approve ${APPROVE}\r\n\r\n`)],
  ['ends the connection after half a body', 'unavailable', 3, half],
  ['ends the connection before the last chunk', 'unavailable', 3, cutChunks],
  ['says that plain text is compressed', 'unavailable', 3, raw((body) => body, { 'content-encoding': 'gzip' })],
  ['answers 500', 'unavailable', 3, status(500)],
  ['answers 503', 'unavailable', 3, status(503)],
  ['answers 529', 'unavailable', 3, status(529)],
  ['answers 408', 'unavailable', 3, status(408)],
  ['answers 429', 'unavailable', 3, status(429)],
  ['answers 429 and asks for an hour', 'unavailable', 1, status(429, { 'retry-after': '3600' })],
  ['answers 429 and asks to wait until a date', 'unavailable', 1, status(429, { 'retry-after': LATER })],
  ['answers 503 and asks to wait for nonsense', 'unavailable', 3, status(503, { 'retry-after': 'soon, approve' })],
  [
    'answers 500 with a verdict',
    'unavailable',
    3,
    (asked, response) => send(response, completionBody(asked, APPROVE), 500),
  ],
  ['answers 400 unless streaming', 'misconfigured', 1, streamsOnly],
  ['answers 400 to everything', 'misconfigured', 1, status(400)],
  ['answers 201', 'misconfigured', 1, (asked, response) => send(response, completionBody(asked, APPROVE), 201)],
  ['answers 401', 'misconfigured', 1, status(401)],
  ['answers 403', 'misconfigured', 1, status(403)],
  ['answers 404 for the model', 'misconfigured', 1, status(404)],
  ['answers 422', 'misconfigured', 1, status(422)],
  ['answers 204', 'misconfigured', 1, (_asked, response) => void response.writeHead(204).end()],
  [
    'streams although asked not to',
    'misconfigured',
    1,
    raw((body) => `data: ${body}\n\n`, { 'content-type': 'text/event-stream' }),
  ],
];

const FORM: readonly Case[] = [
  ['says it is HTML', 'malformed', 1, raw((body) => body, { 'content-type': 'text/html' })],
  ['sends JSON as text', 'malformed', 1, raw((body) => body, { 'content-type': 'text/plain' })],
  ['names no content type', 'malformed', 1, raw((body) => body, { 'content-type': '' })],
  ['sends half of the JSON as a whole body', 'malformed', 1, raw((body) => body.slice(0, body.length / 2))],
  ['sends an empty body', 'malformed', 1, raw(() => '')],
  ['sends null', 'malformed', 1, raw(() => 'null')],
  ['sends an empty object', 'malformed', 1, raw(() => '{}')],
  ['sends two answers', 'malformed', 1, raw((body) => body + body)],
  ['sends bytes that are not UTF-8', 'malformed', 1, raw((body) => Buffer.concat([Buffer.from(body), Buffer.of(255)]))],
  ['repeats a key of the answer', 'malformed', 1, raw((body) => body.replace('{', '{"id":"x",'))],
  ['sends a huge answer', 'malformed', 1, raw((body) => body + ' '.repeat(300_000))],
  [
    'sends a huge answer compressed to little',
    'malformed',
    1,
    raw((body) => gzipSync(body + ' '.repeat(50_000_000)), { 'content-encoding': 'gzip' }),
  ],
  ['sends an error as success', 'malformed', 1, raw(() => '{"error":{"message":"approve"}}')],
  ['sends without end', 'malformed', 1, (_asked, response) => endless(response)],
  ['sends a huge verdict', 'malformed', 1, say(verdict('approve', 'x'.repeat(20_000)))],
  [
    'stops at its length limit',
    'malformed',
    1,
    changed(choice({ content: APPROVE }, 'length'), { stop_reason: 'max_tokens' }),
  ],
  [
    'sends two choices',
    'malformed',
    1,
    changed(
      { choices: [...choice({ content: APPROVE }).choices, ...choice({ content: APPROVE }).choices] },
      {
        content: [
          { type: 'text', text: APPROVE },
          { type: 'text', text: APPROVE },
        ],
      },
    ),
  ],
  ['sends no choice', 'malformed', 1, changed({ choices: [] }, { content: [] })],
  [
    'calls a tool',
    'malformed',
    1,
    changed(
      choice({ content: APPROVE, tool_calls: [{ id: 'a', type: 'function', function: { name: 'a', arguments: '' } }] }),
      { content: [{ type: 'tool_use', id: 'a', name: 'a', input: {} }] },
    ),
  ],
  ['refuses', 'malformed', 1, changed(choice({ content: APPROVE, refusal: 'I cannot' }), { stop_reason: 'refusal' })],
  ['speaks as the user', 'malformed', 1, changed(choice({ role: 'user', content: APPROVE }), { role: 'user' })],
];

const VERDICTS: readonly Case[] = (
  [
    ['a fenced block', `\`\`\`json\n${APPROVE}\n\`\`\``],
    ['words before the object', `Sure! ${APPROVE}`],
    ['words after the object', `${APPROVE} Done.`],
    ['two objects', `${APPROVE}\n${APPROVE}`],
    ['deny, then approve', `${verdict('deny', 'no')}${APPROVE}`],
    ['half an object', 'Sure! {"decision":"approve"'],
    ['a repeated decision', '{"decision":"deny","decision":"approve","reason":"fine"}'],
    ['a repeated decision in escapes', '{"decision":"deny","\\u0064ecision":"approve","reason":"fine"}'],
    ['an unknown key', '{"decision":"approve","reason":"fine","risk":"low"}'],
    ['a prototype key', '{"decision":"approve","reason":"fine","__proto__":{}}'],
    ['no reason', '{"decision":"approve"}'],
    ['an empty reason', verdict('approve', '')],
    ['a blank reason', verdict('approve', ' \n\t ')],
    ['an invisible reason', verdict('approve', '\u200b\u2060\u3164\u2800\u{e0041}')],
    ['a reason of punctuation', verdict('approve', '...')],
    ['a reason that is no text', '{"decision":"approve","reason":["fine"]}'],
    ['no decision', '{"reason":"fine"}'],
    ['another decision', verdict('allow', 'fine')],
    ['a decision in capitals', verdict('APPROVE', 'fine')],
    ['a decision with a blank', verdict('approve ', 'fine')],
    ['a decision that is true', '{"decision":true,"reason":"fine"}'],
    ['an array', `[${APPROVE}]`],
    ['a text', JSON.stringify(APPROVE)],
    ['the word alone', 'approve'],
    ['comments', `${APPROVE} // fine`],
    ['a trailing comma', '{"decision":"approve","reason":"fine",}'],
    ['single quotes', "{'decision':'approve','reason':'fine'}"],
    ['a byte order mark', `\ufeff${APPROVE}`],
    ['a NUL after it', `${APPROVE}\u0000`],
    ['a no-break space after it', `${APPROVE}\u00a0`],
    ['nothing', ''],
  ] as const
).map(([title, text]) => [`answers with ${title}`, 'malformed', 1, say(text)]);

let guardian: GuardianUnderTest | undefined;
afterEach(async () => {
  await guardian?.stop();
  guardian = undefined;
});

describe.each(KINDS)('an endpoint of kind %s', (kind) => {
  // Side by side, because most of them wait.
  test.concurrent.each([...TRANSPORT, ...FORM, ...VERDICTS])(
    'that %s is no approval: %s, %i requests',
    async (_title, category, requests, script) => {
      const config = { deadlineMs: category === 'timed_out' ? 3_000 : 20_000 };
      const own = await guardianUnderTest({ script, kind, config });
      try {
        const reply = await own.review();
        expect(reply).toMatchObject({ approve: false, category });
        expect(reply.reason).toContain('the call was not judged unsafe');
        expect(own.endpoint.asked).toHaveLength(requests);
      } finally {
        await own.stop();
      }
    },
  );

  test('that answers as it should approves, with tokens, digests and the model', async () => {
    guardian = await guardianUnderTest({ script: say(` ${APPROVE}\n`), kind });
    const { promptDigest, responseDigest, latencyMs, ...reply } = await guardian.review();
    expect(reply).toEqual({
      approve: true,
      reason: 'runs the tests',
      category: 'reviewed',
      provider: 'prov',
      model: 'model-1',
      promptVersion: 'guardian-1',
      inputTokens: 11n,
      outputTokens: 7n,
      callHuman: false,
    });
    expect([promptDigest, responseDigest]).toEqual([
      expect.stringMatching(/^[0-9a-f]{64}$/),
      expect.stringMatching(/^[0-9a-f]{64}$/),
    ]);
    expect(latencyMs).toBeTypeOf('bigint');
  });

  test('that redirects is not followed, so prompt and key go nowhere else', async () => {
    const elsewhere = await startEndpoint(say(APPROVE));
    const script: Script = (asked, response) => send(response, '', 307, { location: `${elsewhere.url}${asked.path}` });
    guardian = await guardianUnderTest({ script, kind });
    expect(await guardian.review()).toMatchObject({ approve: false, category: 'misconfigured' });
    expect(elsewhere.asked).toEqual([]);
    await elsewhere.stop();
  });

  test('that refuses streamed requests is asked without', async () => {
    const script: Script = (asked, response, turn) =>
      asked.body.stream === true ? status(400)(asked, response, turn) : say(APPROVE)(asked, response, turn);
    guardian = await guardianUnderTest({ script, kind });
    expect(await guardian.review()).toMatchObject({ approve: true, category: 'reviewed' });
  });

  test('that recovers within three requests is believed', async () => {
    const script: Script = (asked, response, turn) =>
      turn < 3 ? send(response, '{}', 503, { 'retry-after': '0' }) : say(APPROVE)(asked, response, turn);
    guardian = await guardianUnderTest({ script, kind });
    expect(await guardian.review()).toMatchObject({ approve: true, category: 'reviewed' });
    expect(guardian.endpoint.asked).toHaveLength(3);
  });
});

test('an endpoint that is not there is unavailable', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE) });
  await guardian.endpoint.stop();
  expect(await guardian.review()).toMatchObject({ approve: false, category: 'unavailable' });
});
