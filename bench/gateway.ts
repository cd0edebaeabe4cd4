import { get, type IncomingMessage, request } from 'node:http';
import { performance } from 'node:perf_hooks';
import { ControlPlane } from '../apps/gateway/src/testing/control-plane.ts';

/**
 * `node bench/gateway.ts [calls] [readers]`: a gateway with many waiting calls (10,000) and event readers (1,000). Prints the 95th
 * percentile of listing, reading and deciding; ends with 1 when one is 200 ms or more, a reader missed or reordered an event,
 * or one call had two winners.
 */
const calls = Number(process.argv[2] ?? 10_000);
const readers = Number(process.argv[3] ?? 1_000);
const BOUND_MS = 200;
const SAMPLES = 100;
const ANSWERS = 50;
const CONNECTIONS = 8;
const AT_ONCE = 64;

const plane = new ControlPlane();
const people = Array.from({ length: CONNECTIONS }, (_, at) => ({ name: `person-${at}`, role: 'operator' as const }));
let source = 0;

/** A request from one of many loopback addresses, since the rate limit counts addresses. */
function options(route: string, as: string) {
  source = (source + 1) % 250;
  const { port } = new URL(plane.address);
  const headers = { authorization: `Bearer ${plane.tokens.get(as)}`, 'content-type': 'application/json' };
  return { host: '127.0.0.1', port, path: route, headers, localAddress: `127.0.1.${source + 1}` };
}

function ask(method: string, route: string, as: string, body?: object): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const sent = request({ ...options(route, as), method }, (answer) => {
    let text = '';
    answer.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
  });
  sent.on('error', reject);
  sent.end(body ? JSON.stringify(body) : undefined);
  return promise;
}

async function timed(work: () => Promise<{ status: number }>): Promise<number> {
  const begun = performance.now();
  const { status } = await work();
  if (status !== 200) throw new Error(`answered ${status}`);
  return performance.now() - begun;
}

async function p95(name: string, work: (at: number) => Promise<{ status: number }>): Promise<boolean> {
  const times: number[] = [];
  for (let at = 0; at < SAMPLES; at += 1) times.push(await timed(() => work(at)));
  const value = times.toSorted((a, b) => a - b)[Math.floor(SAMPLES * 0.95)] ?? Number.NaN;
  process.stdout.write(`${name}: p95 ${value.toFixed(1)} ms\n`);
  return value < BOUND_MS;
}

/** Event numbers of each reader, in the order in which they came. */
const seen: number[][] = [];

function openReader(): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const numbers: number[] = [];
  seen.push(numbers);
  get(options('/v1/events', 'person-0'), (stream) => {
    let rest = '';
    stream.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line.startsWith('id: ')) numbers.push(Number(line.slice(4)));
    });
    resolve(stream);
  }).on('error', reject);
  return promise;
}

async function inBatches(count: number, work: (at: number) => Promise<void>): Promise<void> {
  const order = Array.from({ length: count }, (_, at) => at).values();
  const worker = async () => {
    for (const at of order) await work(at);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function viewDigestOf(id: string): Promise<string> {
  return (JSON.parse((await ask('GET', `/v1/calls/${id}`, 'person-0')).text) as { viewDigest: string }).viewDigest;
}

async function run(): Promise<boolean> {
  await plane.start(people);
  const ids: string[] = [];
  await inBatches(calls, async () => {
    ids.push(await plane.pendingCall());
  });
  const take = () => ids.pop() ?? '';
  const digests = await viewDigestOf(ids[0] ?? '');
  const decide = (id: string, by: string, answer: string) =>
    ask('POST', `/v1/calls/${id}/decision`, by, { answer, viewDigest: digests });
  const fast = [
    await p95('list 100', () => ask('GET', '/v1/calls?state=pending&limit=100', 'person-0')),
    await p95('list 500', () => ask('GET', '/v1/calls?state=pending&limit=500', 'person-0')),
    await p95('read one', (at) => ask('GET', `/v1/calls/${ids[at]}`, 'person-0')),
    await p95('decide', () => decide(take(), 'person-1', 'deny')),
  ];
  const contested = take();
  const answers = await Promise.all(
    Array.from({ length: ANSWERS }, (_, at) =>
      decide(contested, `person-${at % CONNECTIONS}`, at % 2 ? 'deny' : 'approve'),
    ),
  );
  const lost = answers.filter(({ status }) => status === 409).length;
  const won = new Set(answers.flatMap(({ status }, at) => (status === 200 ? [`${at % CONNECTIONS} ${at % 2}`] : [])));
  process.stdout.write(`${ANSWERS} answers to one call: ${won.size} winner, ${lost} told who won\n`);

  const streams = await Promise.all(Array.from({ length: readers }, openReader));
  const begun = performance.now();
  for (let at = 0; at < SAMPLES; at += 1) await decide(take(), 'person-2', 'deny');
  const longest = () => Math.max(...seen.map((numbers) => numbers.length));
  // Two events for each decision: the call, and that it waits no longer.
  for (const untilMs = Date.now() + 60_000; Date.now() < untilMs; ) {
    if (seen.every((numbers) => numbers.length >= SAMPLES * 2 && numbers.length === longest())) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const first = JSON.stringify(seen[0]);
  const same = seen.filter((numbers) => JSON.stringify(numbers) === first && numbers.length >= SAMPLES * 2).length;
  const elapsed = (performance.now() - begun).toFixed(0);
  process.stdout.write(`${same} of ${readers} readers got ${seen[0]?.length} events in one order, in ${elapsed} ms\n`);
  for (const stream of streams) stream.destroy();
  return fast.every(Boolean) && won.size === 1 && won.size + lost <= ANSWERS && same === readers;
}

try {
  process.exitCode = (await run()) ? 0 : 1;
} finally {
  await plane.stop();
}
