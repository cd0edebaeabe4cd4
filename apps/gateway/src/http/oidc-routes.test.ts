import { freePort } from '@countersign/service-kit/embedded';
import { type IdentityProvider, startIdentityProvider } from '@countersign/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';
import { type Fault, HostileProvider } from '../testing/hostile-provider.ts';

const TOKENS: readonly TestToken[] = [
  { name: 'boss', role: 'admin' },
  { name: 'local-approver', role: 'approver' },
];
const GROUPS: Readonly<Record<string, string[]>> = {
  kim: ['payments', 'deciders'],
  lou: ['cooks'],
  'local-approver': ['deciders'],
};
const ROLES = { approver: ['deciders', 'red'], admin: ['it'] };

/** Requests of one browser: keeps cookies, follows no redirect by itself. */
class Browser {
  readonly cookies = new Map<string, string>();

  async open(url: string, form?: Record<string, string>): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie },
      ...(form ? { method: 'POST', body: new URLSearchParams(form) } : {}),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return answer;
  }

  /** Follows redirects and fills in the provider's forms as `login` until the gateway or nothing more answers. */
  async signIn(start: string, login: string): Promise<{ answer: Response; url: string }> {
    let url = start;
    let answer = await this.open(url);
    for (let step = 0; step < 20; step += 1) {
      const location = answer.headers.get('location');
      if (location !== null) {
        url = new URL(location, url).href;
        if (new URL(url).pathname === '/desk') return { answer, url };
        answer = await this.open(url);
        continue;
      }
      const html = answer.headers.get('content-type')?.includes('html') ? await answer.text() : '';
      const action = /action="([^"]+)"/.exec(html)?.[1];
      if (action === undefined) return { answer, url };
      url = new URL(action, url).href;
      const prompt = /name="prompt" value="([^"]+)"/.exec(html)?.[1] ?? 'login';
      answer = await this.open(url, { prompt, login, password: 'x' });
    }
    throw new Error('the sign-in does not end');
  }
}

const me = (plane: ControlPlane, browser: Browser) => browser.open(`${plane.address}/v1/me`);

describe('with a real provider', () => {
  const plane = new ControlPlane();
  let provider: IdentityProvider;
  let login = '';

  beforeAll(async () => {
    const [http, idp] = [await freePort(), await freePort()];
    const publicUrl = `http://127.0.0.1:${http}`;
    provider = await startIdentityProvider({
      ...{ port: idp, redirectUris: [`${publicUrl}/v1/oidc/callback`], groups: GROUPS },
    });
    const oidc = { issuer: provider.issuer, clientId: 'countersign', publicUrl, roles: ROLES } as never;
    await plane.start(TOKENS, { http: { host: '127.0.0.1', port: http, trustedProxies: [] }, oidc });
    login = `${plane.address}/v1/oidc/login?to=/desk`;
  }, 60_000);
  afterAll(async () => {
    await provider.stop();
    await plane.stop();
  });

  test('a person signs in, with roles and groups of the claims, and may act', async () => {
    const browser = new Browser();
    const { url } = await browser.signIn(login, 'kim');
    expect(new URL(url).pathname).toBe('/desk');
    const answer = (await (await me(plane, browser)).json()) as { csrf: string };
    expect(answer).toMatchObject({
      name: 'kim',
      roles: ['approver'],
      groups: ['payments', 'deciders'],
      method: 'oidc',
    });
    const callId = await plane.pendingCall();
    const cookie = `countersign_session=${browser.cookies.get('countersign_session')}`;
    const headers = { cookie, 'x-csrf-token': answer.csrf };
    expect((await plane.request('POST', `/v1/calls/${callId}/cancel`, { headers, body: {} })).status).toBe(200);
  });

  test('a person without a role, and a name of a local person, get no session', async () => {
    for (const name of ['lou', 'local-approver']) {
      const browser = new Browser();
      const { answer } = await browser.signIn(login, name);
      expect([name, answer.status, browser.cookies.has('countersign_session')]).toEqual([name, 401, false]);
    }
  });

  test('a fresh sign-in lets a person do a sensitive act again', async () => {
    const browser = new Browser();
    await browser.signIn(login, 'kim');
    const attempt = async () => {
      const { csrf } = (await (await me(plane, browser)).json()) as { csrf: string };
      const cookie = `countersign_session=${browser.cookies.get('countersign_session')}`;
      const body = { label: 'x', roles: ['approver'], scopes: ['read'], days: 1 };
      return plane.request('POST', '/v1/tokens', { headers: { cookie, 'x-csrf-token': csrf }, body });
    };
    expect((await attempt()).status).toBe(201);
    plane.aheadMs = 6 * 60_000;
    expect(((await (await attempt()).json()) as { code: string }).code).toBe('countersign.gateway.sign_in_again');
    plane.aheadMs = 0;
    const again = await browser.open(`${plane.address}/v1/oidc/login?fresh=1&to=/desk`);
    expect(new URL(again.headers.get('location') ?? '').searchParams.get('prompt')).toBe('login');
    await browser.signIn(`${plane.address}/v1/oidc/login?fresh=1&to=/desk`, 'kim');
    expect((await attempt()).status).toBe(201);
  });

  test('a person who was shut out by an admin stays out, whatever the provider says', async () => {
    const body = { roles: ['approver'], groups: [], active: false };
    await plane.request('PUT', '/v1/people/kim', { as: 'boss', body });
    const browser = new Browser();
    expect((await browser.signIn(login, 'kim')).answer.status).toBe(401);
  });
});

describe('with a provider that misbehaves', () => {
  const plane = new ControlPlane();
  const provider = new HostileProvider();

  beforeAll(async () => {
    await provider.start();
    const oidc = {
      ...{ issuer: provider.issuer, clientId: 'countersign', roles: ROLES, timeoutMs: 500 },
      publicUrl: 'http://127.0.0.1:1',
    } as never;
    await plane.start(TOKENS, { oidc });
  }, 60_000);
  afterAll(() => plane.stop());

  async function attempt(
    fault: Fault,
    change: (query: URLSearchParams) => void = () => undefined,
    browser = new Browser(),
  ) {
    provider.fault = fault;
    const begun = await browser.open(`${plane.address}/v1/oidc/login`);
    const query = provider.answer(new URL(begun.headers.get('location') ?? ''));
    change(query);
    const answer = await browser.open(`${plane.address}/v1/oidc/callback?${query}`);
    const hasSession = browser.cookies.has('countersign_session');
    return { status: answer.status, hasSession, query };
  }

  test('the provider signs people in when it tells the truth', async () => {
    for (const fault of ['none', 'right_at_hash'] as const)
      expect(await attempt(fault)).toMatchObject({ status: 302, hasSession: true });
  });

  test.each<Fault>([
    'nonce',
    'expired',
    'signature',
    'audience',
    'issuer',
    'unsigned',
    'stale',
    'no_auth_time',
    'symmetric',
    'party',
    'at_hash',
    'not_yet',
    'no_subject',
    'no_id_token',
    'used_code',
  ])('an answer with a wrong %s signs nobody in', async (fault) => {
    expect(await attempt(fault)).toMatchObject({ status: 401, hasSession: false });
  });

  test('a changed state, a foreign browser, a replayed answer and another issuer sign nobody in', async () => {
    expect((await attempt('none', (query) => query.set('state', 'other'))).status).toBe(401);
    expect((await attempt('none', (query) => query.set('iss', 'https://other.example'))).status).toBe(401);
    // A provider that says it names itself must do so, or another one's answer could be mixed in.
    expect((await attempt('none', (query) => query.delete('iss'))).status).toBe(401);
    const { query } = await attempt('none');
    expect((await new Browser().open(`${plane.address}/v1/oidc/callback?${query}`)).status).toBe(401);
    const victim = new Browser();
    const attacker = new Browser();
    const begun = await attacker.open(`${plane.address}/v1/oidc/login`);
    const answer = provider.answer(new URL(begun.headers.get('location') ?? ''));
    expect((await victim.open(`${plane.address}/v1/oidc/callback?${answer}`)).status).toBe(401);
  });

  test('after a new key of the provider one sign-in is refused at most', async () => {
    expect((await attempt('none')).status).toBe(302);
    plane.aheadMs = 11_000;
    await attempt('rotated');
    expect(await attempt('rotated')).toMatchObject({ status: 302, hasSession: true });
    await attempt('none');
    plane.aheadMs = 22_000;
    await attempt('none');
    expect((await attempt('none')).status).toBe(302);
    plane.aheadMs = 0;
  });

  test('a session that somebody planted in the browser does not become the session of who signs in', async () => {
    const browser = new Browser();
    browser.cookies.set('countersign_session', 'planted');
    expect(await attempt('none', undefined, browser)).toMatchObject({ status: 302 });
    expect(browser.cookies.get('countersign_session')).not.toBe('planted');
    const headers = { cookie: 'countersign_session=planted' };
    expect((await plane.request('GET', '/v1/me', { headers })).status).toBe(401);
  });

  test('a name that differs from a known person in case only is the same person, and signs nobody in', async () => {
    expect((await attempt('none')).status).toBe(302);
    for (const sub of ['Ann', 'BOSS', 'Boss']) {
      provider.claims = { sub };
      expect(await attempt('none')).toMatchObject({ status: 401, hasSession: false });
    }
    provider.claims = {};
    const body = { roles: ['approver'], groups: [] };
    expect((await plane.request('PUT', '/v1/people/ANN', { as: 'boss', body })).status).toBe(400);
  });

  test('a reference in place of too many groups signs nobody in, and takes no role away', async () => {
    await attempt('none');
    provider.claims = { groups: undefined, _claim_names: { groups: 'src1' }, _claim_sources: { src1: {} } };
    expect(await attempt('none')).toMatchObject({ status: 401, hasSession: false });
    provider.claims = {};
    const { people } = (await (await plane.request('GET', '/v1/people', { as: 'boss' })).json()) as {
      people: { subject: string; groups: string[] }[];
    };
    expect(people.find(({ subject }) => subject === 'ann')?.groups).toEqual(['red']);
  });

  test('claims that are no names or no groups sign nobody in', async () => {
    for (const claims of [{ sub: ' \u202e' }, { groups: 'red' }, { groups: [['red']] }, { groups: ['blue'] }]) {
      provider.claims = claims;
      expect(await attempt('none')).toMatchObject({ status: 401, hasSession: false });
    }
    provider.claims = {};
  });

  test('a sign-in leads back into this gateway only', async () => {
    for (const to of ['https://evil.example/', '//evil.example', '/\\evil.example']) {
      const browser = new Browser();
      provider.fault = 'none';
      const begun = await browser.open(`${plane.address}/v1/oidc/login?to=${encodeURIComponent(to)}`);
      const query = provider.answer(new URL(begun.headers.get('location') ?? ''));
      const answer = await browser.open(`${plane.address}/v1/oidc/callback?${query}`);
      expect(answer.headers.get('location')).toBe('/');
    }
  });

  test('a slow and an absent provider are said to be unreachable, and tokens go on working', async () => {
    expect(await attempt('slow')).toMatchObject({ status: 503, hasSession: false });
    await provider.stop();
    plane.aheadMs = 3_600_001;
    const answer = await plane.request('GET', '/v1/oidc/login');
    expect([answer.status, (await plane.request('GET', '/v1/me', { as: 'boss' })).status]).toEqual([503, 200]);
    plane.aheadMs = 0;
  });
});
