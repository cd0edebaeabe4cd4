import { createIdentity, openIdentity } from '@countersign/protocol';
import { useNats } from '@countersign/testing';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { GatewayBus } from '../broker/gateway-bus.ts';
import { EventHub } from '../event-hub.ts';
import { channelsSchema } from './channel.ts';
import { Reach } from './reach.ts';

const nats = useNats({ configText: 'authorization { users: [ { user: gateway, password: gateway } ] }' });
const connections: NatsConnection[] = [];
const call = { queue: 'prod', principal: 'ann' };
let here: { hub: EventHub; reach: Reach };
let there: { hub: EventHub; reach: Reach };
/** Rises with each test, so that no answer of an earlier one is kept. */
let nowMs = Date.now();

async function gateway(name: string, channels: object[] = []) {
  const connection = await connect({ servers: nats().url, user: 'gateway', pass: 'gateway' });
  connections.push(connection);
  const identity = await openIdentity(await createIdentity('gateway', name));
  const hub = new EventHub();
  const now = () => nowMs;
  const bus = new GatewayBus({ connection, identity, isGateway: () => true, now });
  const reach = new Reach({ channels: channelsSchema.parse(channels), hub, bus, now });
  await connection.flush();
  return { hub, reach };
}

beforeAll(async () => {
  here = await gateway('here');
  there = await gateway('there');
});
beforeEach(() => {
  nowMs += 10_000;
});
afterAll(() => Promise.all(connections.map((connection) => connection.close())));

test('nobody is reachable when no gateway has a follower and no channel exists', async () => {
  expect(await here.reach.isReachable(call)).toBe(false);
});

test('whoever may decide is reachable at this gateway and from every other one, until he leaves', async () => {
  const leave = there.hub.follow(
    () => undefined,
    ({ queue, principal }) => queue === 'prod' && principal !== 'bob',
  );
  expect(await there.reach.isReachable(call)).toBe(true);
  expect(await here.reach.isReachable(call)).toBe(true);
  expect(await here.reach.isReachable({ ...call, principal: 'bob' })).toBe(false);
  expect(await here.reach.isReachable({ ...call, queue: 'other' })).toBe(false);
  leave?.();
  nowMs += 10_000;
  expect(await here.reach.isReachable(call)).toBe(false);
});

test('a channel reaches the queues that it tells of, and only those', async () => {
  const channel = { id: 'team', kind: 'webhook', template: 'slack', url: 'https://hooks.example/x', queues: ['prod'] };
  const told = await gateway('told', [channel]);
  expect(await told.reach.isReachable(call)).toBe(true);
  expect(await told.reach.isReachable({ ...call, queue: 'other' })).toBe(false);
});
