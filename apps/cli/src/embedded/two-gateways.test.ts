import type { SubmittedCall } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import { callUntil, eventually, type FleetUnderTest, newSession, startFleet, waitingView } from './fleet-under-test.ts';
import { readTokens } from './keys.ts';

let fleet: FleetUnderTest;
let clients: readonly [GatewayClient, GatewayClient];
let session = '';

beforeAll(async () => {
  fleet = await startFleet('gateways');
  clients = [fleet.installation.client('local-approver'), fleet.installation.secondClient('local-approver')];
  session = await newSession(fleet);
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const write = (name: string) => ({ tool: 'write', args: { path: name, content: 'x\n' }, session });

type Seen = { readonly id: number; readonly name: string; readonly callId: string };

/** Reads a gateway's event stream until `enough`; returns the events in the order in which they came. */
async function events(base: string, lastId: number | undefined, enough: (seen: Seen[]) => boolean): Promise<Seen[]> {
  const token = readTokens(fleet.installation.data)['local-approver'] ?? '';
  const headers = {
    authorization: `Bearer ${token}`,
    ...(lastId === undefined ? {} : { 'last-event-id': `${lastId}` }),
  };
  const answer = await fetch(new URL('/v1/events', base), { headers });
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const seen: Seen[] = [];
  let text = '';
  while (!enough(seen)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const [, id, name, data] = /^id: (\d+)\nevent: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      const { callId = '' } = data === undefined ? {} : (JSON.parse(data) as { callId?: string });
      if (id !== undefined && name !== undefined) seen.push({ id: Number(id), name, callId });
    }
  }
  await reader.cancel();
  return seen;
}

test('fifty answers of three people at two gateways in the same moment: one wins, all others are told who', async () => {
  const { call } = await callUntil(fleet, write('fifty.txt'), ['pending']);
  const viewDigest = await waitingView(clients[0], call.callId);
  const names = ['local-approver', 'local-operator', 'local-admin'] as const;
  const people = names.flatMap((name) => [fleet.installation.client(name), fleet.installation.secondClient(name)]);
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, at) =>
      (people[at % people.length] ?? clients[0]).decide(call.callId, {
        answer: at % 3 === 0 ? 'deny' : 'approve',
        viewDigest,
      }),
    ),
  );
  const won = answers.filter((answer) => answer.ok);
  // The winner's own repetition, in the same moment, is the same answer again and gets the same reply.
  const said = answers.flatMap((answer, at) =>
    answer.ok ? [`${names[Math.floor((at % 6) / 2)]} ${at % 3 === 0}`] : [],
  );
  expect(new Set(said).size).toBe(1);
  const lost = answers.flatMap((answer) => (answer.ok ? [] : [[answer.error.status, answer.error.code]]));
  expect(new Set(lost.map(String))).toEqual(new Set(['409,countersign.gateway.already_decided']));
  const winners = answers.flatMap((answer) => (answer.ok ? [] : [answer.error.winner]));
  expect(new Set(winners)).toEqual(new Set([said[0]?.split(' ')[0]]));
  const { state } = await call.result;
  expect(state).toBe(won[0]?.ok && won[0].value.state === 'approved' ? 'done' : 'denied');
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
});

test('an agent is told at once that its call waits for nobody', async () => {
  const { call, events: told } = await callUntil(fleet, write('alone.txt'), ['pending']);
  const warned = await eventually(async () => told.find(({ code }) => code === 'countersign.gateway.no_approver'));
  expect(warned).toMatchObject({ state: 'pending', callId: call.callId });
  call.cancel();
  expect((await call.result).state).toBe('cancelled');
});

test('every gateway shows the same events in the same order, and a reader resumes at the other one', async () => {
  const bases = [fleet.installation.endpoints.http, fleet.installation.secondAddress];
  const wanted = 4;
  // A call that its agent sends again is told again; what counts is when each is told first.
  const requests = (seen: Seen[]) =>
    seen.filter(
      ({ name, callId }, at) =>
        name === 'approval_request' && seen.findIndex((one) => one.name === name && one.callId === callId) === at,
    );
  const reading = bases.map((base) => events(base, undefined, (seen) => requests(seen).length >= wanted));
  await eventually(async () => ((await clients[0].isReady()) && (await clients[1].isReady()) ? true : undefined));
  const calls: SubmittedCall[] = [];
  for (let at = 0; at < wanted; at += 1)
    calls.push((await callUntil(fleet, write(`seen-${at}.txt`), ['pending'])).call);
  const [here = [], there = []] = await Promise.all(reading);
  expect(requests(here)).toEqual(requests(there));
  expect(requests(here).map(({ callId }) => callId)).toEqual(calls.map(({ callId }) => callId));
  const second = requests(here)[1];
  const later = (seen: Seen[]) =>
    requests(seen).filter(({ callId }) => calls.slice(2).some((call) => call.callId === callId));
  const resumed = await events(bases[1] ?? '', second?.id, (seen) => later(seen).length >= wanted - 2);
  expect(later(resumed).map(({ callId }) => callId)).toEqual(calls.slice(2).map(({ callId }) => callId));
  expect(resumed.every(({ id }) => id > (second?.id ?? 0))).toBe(true);
  for (const call of calls) call.cancel();
  await Promise.all(calls.map(({ result }) => result));
});

test('a call answered at one gateway and submitted through the other is one call', async () => {
  for (const client of clients) {
    const { call } = await callUntil(fleet, write('either.txt'), ['pending']);
    const viewDigest = await waitingView(client, call.callId);
    const other = client === clients[0] ? clients[1] : clients[0];
    expect((await client.decide(call.callId, { answer: 'approve', viewDigest })).ok).toBe(true);
    expect((await other.decide(call.callId, { answer: 'approve', viewDigest })).ok).toBe(false);
    expect((await call.result).state).toBe('done');
  }
  expect(await clients[1].request('GET', '/v1/me', z.looseObject({ name: z.string() }))).toMatchObject({ ok: true });
});
