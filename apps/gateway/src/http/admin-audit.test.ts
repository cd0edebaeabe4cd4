import { createIdentity } from '@countersign/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { channelsSchema } from '../notify/channel.ts';
import { json } from '../record/entries.ts';
import { ControlPlane } from '../testing/control-plane.ts';

const plane = new ControlPlane();
let session = '';

beforeAll(async () => {
  const channels = channelsSchema.parse([
    { id: 'team', kind: 'webhook', template: 'slack', url: 'http://127.0.0.1:1/hook' },
  ]);
  await plane.start([{ name: 'ada', role: 'admin' }], { channels });
  session = 'ses_audited';
  const value = {
    ...{ id: session, agent: 'agt', principal: 'somebody', host: 'local', project: '/srv/project' },
    ...{ permission_mode: 'strict', approval_mode: 'manual', eternal: false, model: { provider: '', name: '' } },
    ...{ request_text: '', state: 'open', labels: {} },
  };
  await plane.audit.append({
    entries: [{ id: 'ent_s', type: 'session.opened', stream: session, emittedMs: 1n, body: json({ session }) }],
    documents: [{ kind: 'session', key: session, value: json(value), expectedVersion: 0n }],
  });
}, 60_000);
afterAll(() => plane.stop());

type Act = { readonly route: string; readonly body?: () => Promise<object> | object; readonly leaves: string };

/** What an administrator does, in an order in which each of it succeeds, and the entry that it leaves. */
const ACTS: readonly Act[] = [
  { route: 'PUT /v1/people/zoe', body: () => ({ roles: ['viewer'] }), leaves: 'admin.changed' },
  { route: 'POST /v1/login-links', body: () => ({ subject: 'zoe' }), leaves: 'admin.changed' },
  {
    route: 'POST /v1/tokens',
    body: () => ({ label: 'ci', roles: ['viewer'], scopes: ['read'], days: 1 }),
    leaves: 'admin.changed',
  },
  {
    route: 'POST /v1/invitations',
    body: () => ({
      member: { role: 'host', id: 'h2', principal: 'local', hosts: [], roots: {}, tools: [], queues: [], task: '' },
    }),
    leaves: 'admin.changed',
  },
  {
    route: 'POST /v1/members',
    body: async () => {
      const { publicKey: sign_key, sealPublicKey: seal_key } = await createIdentity('host', 'h3');
      const nothing = { hosts: [], roots: {}, tools: [], queues: [], task: '' };
      return { role: 'host', id: 'h3', sign_key, seal_key, principal: 'local', ...nothing };
    },
    leaves: 'member.joined',
  },
  { route: 'PUT /v1/policy', body: () => ({ text: '{"mode":"strict"}', name: 'p.json' }), leaves: 'policy.changed' },
  { route: 'POST /v1/freeze', body: () => ({ scope: 'host:h3', reason: 'test' }), leaves: 'freeze.set' },
  { route: 'DELETE /v1/freeze?scope=host:h3&reason=test', leaves: 'freeze.cleared' },
  {
    route: 'POST /v1/sessions/ses_audited/updates',
    body: () => ({ updates: [{ type: 'setMode', mode: 'dev', destination: 'session' }] }),
    leaves: 'admin.changed',
  },
  { route: 'POST /v1/sessions/ses_audited/request', body: () => ({ text: 'tidy up' }), leaves: 'session.changed' },
  {
    route: 'POST /v1/sessions/ses_audited/modes',
    body: () => ({ permissionMode: 'strict' }),
    leaves: 'session.changed',
  },
  { route: 'DELETE /v1/sessions/ses_audited?reason=test', leaves: 'session.closed' },
  { route: 'POST /v1/audit/holds', body: () => ({ scope: 'agent:agt', reason: 'case' }), leaves: 'hold.set' },
  { route: 'DELETE /v1/audit/holds?scope=agent:agt&reason=over', leaves: 'hold.released' },
  { route: 'POST /v1/notifications/channels/team/test', body: () => ({}), leaves: 'admin.changed' },
];

describe('an administrative act leaves an entry that names who did it', () => {
  test.each(ACTS)('$route', async ({ route, body, leaves }) => {
    const before = (await plane.entries()).length;
    const [method = '', path = ''] = route.split(' ');
    const sent = await body?.();
    const answer = await plane.request(method, path, { as: 'ada', ...(sent ? { body: sent } : {}) });
    expect([answer.status, await answer.text()]).toEqual([
      expect.toSatisfy((status) => status < 300),
      expect.any(String),
    ]);
    const left = (await plane.entries()).slice(before).filter(({ type }) => type === leaves);
    expect(left.length).toBe(1);
    expect(JSON.stringify(left[0])).toContain('"ada"');
  });

  test('a login link and a token are in no entry', async () => {
    const made = await plane.request('POST', '/v1/login-links', { as: 'ada', body: { subject: 'zoe' } });
    const { path } = (await made.json()) as { path: string };
    const text = JSON.stringify(await plane.entries());
    expect(text).not.toContain(path.split('token=')[1]);
    for (const token of plane.tokens.values()) expect(text).not.toContain(token);
  });
});

test('hardened mode of the start is undone by no publication, and takes no token in an address', async () => {
  await plane.gateway.stop();
  await plane.startGateway([{ name: 'ada', role: 'admin' }], { hardened: true });
  const text = '{"mode":"strict","security":{"hardened_mode":false}}';
  expect((await plane.request('PUT', '/v1/policy', { as: 'ada', body: { text, name: 'p.json' } })).status).toBe(200);
  const token = plane.tokens.get('ada') ?? '';
  expect((await plane.request('GET', `/v1/me?access_token=${token}`)).status).toBe(401);
  expect((await plane.request('POST', '/v1/login-links', { as: 'ada', body: {} })).status).toBe(403);
  expect((await plane.request('GET', '/v1/me', { as: 'ada' })).status).toBe(200);
  // Loopback is not exempt: the fifth wrong token within a minute stops this address for 30 s, with right ones too.
  const wrong = `cst_tok_${'a'.repeat(32)}_${'b'.repeat(43)}`;
  for (let at = 0; at < 5; at += 1) await plane.request('GET', '/v1/me', { as: wrong });
  const cooling = await plane.request('GET', '/v1/me', { as: 'ada' });
  expect([cooling.status, Number(cooling.headers.get('retry-after')) > 0]).toEqual([429, true]);
  plane.aheadMs += 31_000;
  expect((await plane.request('GET', '/v1/me', { as: 'ada' })).status).toBe(200);
});
