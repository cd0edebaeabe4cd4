import { describe, expect, it } from 'vitest';
import {
  type Call,
  decide,
  factsOf,
  type LayerSource,
  type Layers,
  loadPolicySet,
  type SessionFacts,
} from './index.ts';

function decision(layers: Layers, call: Call, stated: SessionFacts = {}) {
  const set = loadPolicySet(layers);
  if (!set.ok) throw new Error(JSON.stringify(set.error));
  return decide(set.value, call, factsOf(stated));
}
const bash = (command: string): Call => ({ tool: 'bash', args: { command } });
const asks = (...rules: object[]): Layers => ({ user: { mode: 'dev', askRules: rules } as LayerSource });

describe('who must answer an ask', () => {
  it('is what the rule says', () => {
    const rule = { toolName: 'bash', pattern: 'npm publish', reviewer: 'lead', queue: 'release', approvals: 2 };
    expect(decision(asks(rule), bash('npm publish')).review).toEqual({
      reviewer: 'lead',
      queue: 'release',
      approvals: 2,
    });
  });
  it('takes the most approvals of all rules and queues, and no guardian where a person is named', () => {
    const layers: Layers = {
      managed: { queues: { release: { approvals: 3 } } },
      ...asks(
        { toolName: 'bash', pattern: 'npm *', reviewer: 'guardian', approvals: 2 },
        { toolName: 'bash', pattern: 'npm publish', reviewer: 'human', queue: 'release' },
      ),
    };
    expect(decision(layers, bash('npm publish')).review).toEqual({ reviewer: 'human', queue: 'release', approvals: 3 });
  });
  it.each([
    ['so many people', { approvals: 1 }, {}],
    ['a queue with approvals', { queue: 'release' }, { approvals: 2 }],
    ['a queue with a quorum', { queue: 'release' }, { quorum: [{ group: 'ops', count: 1 }] }],
    ['a queue with passkeys', { queue: 'release' }, { passkey: true }],
  ])('is never the guardian where the rule demands %s', (_title, demand, queue) => {
    const rule = { toolName: 'bash', pattern: 'npm publish', reviewer: 'guardian', ...demand };
    const layers: Layers = { managed: { queues: { release: queue } }, ...asks(rule) };
    expect(decision(layers, bash('npm publish')).review?.reviewer).toBeUndefined();
  });
  it('is the guardian for a queue that demands nothing more', () => {
    const rule = { toolName: 'bash', pattern: 'npm publish', reviewer: 'guardian', queue: 'release' };
    const layers: Layers = { managed: { queues: { release: {} } }, ...asks(rule) };
    expect(decision(layers, bash('npm publish')).review).toEqual({ reviewer: 'guardian', queue: 'release' });
  });
  it('is never the guardian when a part of the call cannot be read', () => {
    const rule = { toolName: 'bash', pattern: 'npm *', reviewer: 'guardian' };
    expect(decision(asks(rule), bash('npm test')).review).toEqual({ reviewer: 'guardian' });
    expect(decision(asks(rule), bash('npm test; ls "')).review).toBeUndefined();
  });
  it('is not stated when the call is denied or allowed', () => {
    const layers = asks({ toolName: 'bash', pattern: 'npm *', queue: 'release' });
    expect(decision(layers, bash('ls')).review).toBeUndefined();
    expect(decision(layers, bash('npm test; rm -rf /')).review).toBeUndefined();
  });
});

describe('a call that cannot be judged', () => {
  it('is an ask of a kind that nothing but a person lifts', () => {
    const set = loadPolicySet({ user: { mode: 'yolo' } as LayerSource });
    if (!set.ok) throw new Error('the policy is good');
    const stated = {
      ...factsOf({}),
      get cwd(): string {
        throw new TypeError('no folder');
      },
    };
    expect(decide(set.value, bash('true'), stated)).toMatchObject({ effect: 'ask', askKinds: ['unreadable'] });
  });
});

describe('the grants that would cover an ask', () => {
  const offer = (layers: Layers, call: Call) => decision(layers, call).grantOffer;
  const strict: Layers = { user: { mode: 'strict' } };

  it.each([
    ['a program in its folder', bash('npm test'), [{ tool: 'bash', action: 'execute', scope: '/home/dev/app :: npm' }]],
    [
      'exactly the command of an interpreter',
      bash('node tools/seed.js'),
      [{ tool: 'bash', action: 'execute', scope: '/home/dev/app :: node tools/seed.js' }],
    ],
    [
      'every part of a compound',
      bash('git status && make'),
      [
        { tool: 'bash', action: 'execute', scope: '/home/dev/app :: git' },
        { tool: 'bash', action: 'execute', scope: '/home/dev/app :: make' },
      ],
    ],
    [
      'writes in the project',
      { tool: 'write', args: { path: 'a/b.txt', content: '' } },
      [{ tool: 'write', action: 'write', scope: '/home/dev/app' }],
    ],
    [
      'one path outside it',
      { tool: 'write', args: { path: '/srv/x', content: '' } },
      [{ tool: 'write', action: 'write', scope: '/srv/x' }],
    ],
  ])('are %s, and with them the call is allowed', (_name, call, grants) => {
    expect(offer(strict, call)).toEqual(grants);
    const named = grants.map((grant, at) => ({ ...grant, id: `g${at}` }));
    expect(decision(strict, call, { grants: named })).toMatchObject({
      effect: 'allow',
      lifts: ['grant'],
      usedGrants: named.map(({ id }) => id),
    });
  });
  it('name the ask rule that raised them', () => {
    const layers = asks({ toolName: 'bash', pattern: 'npm publish', id: 'release' });
    expect(offer(layers, bash('npm publish'))).toEqual([
      { tool: 'bash', action: 'execute', scope: '/home/dev/app :: npm', rule: 'release' },
    ]);
  });
  it.each([
    ['unparsable text', bash('ls "')],
    ['a risky form', bash('sudo make')],
    ['a wider profile', { tool: 'bash', args: { command: 'ls', profile: 'full-access', reason: 'x' } }],
    ['a tightening of the agent', { ...bash('ls'), tighten: { effect: 'ask' as const, source: 'skill' } }],
    ['an unresolved word', bash('make $TARGET')],
  ])('are none for %s', (_name, call) => {
    expect(decision(strict, call)).toMatchObject({ effect: 'ask' });
    expect(offer(strict, call)).toBeUndefined();
  });
});

describe('the literal rules that are offered', () => {
  const strict: Layers = { user: { mode: 'strict' } };
  it.each([
    ['a command', bash("echo 'a*b' c"), [{ toolName: 'bash', pattern: 'echo a\\*b c' }]],
    [
      'every part of a compound',
      bash('make && make test'),
      [
        { toolName: 'bash', pattern: 'make' },
        { toolName: 'bash', pattern: 'make test' },
      ],
    ],
    ['a write', { tool: 'write', args: { path: 'a/b.txt', content: '' } }, [{ toolName: 'write', pattern: 'a/b.txt' }]],
    [
      'a host',
      { tool: 'web_fetch', args: { url: 'https://docs.example.org/a' } },
      [{ toolName: 'web_fetch', pattern: 'docs.example.org' }],
    ],
  ])('allow %s again and nothing else', (_name, call, rules) => {
    expect(decision(strict, call).ruleOffer).toEqual(rules);
    expect(decision({ user: { mode: 'strict', allowRules: rules } }, call).effect).toBe('allow');
    expect(decision({ user: { mode: 'strict', allowRules: rules } }, bash('make install')).effect).toBe('ask');
  });
  it('are none where a rule asks', () => {
    expect(decision(asks({ toolName: 'bash', pattern: 'make' }), bash('make')).ruleOffer).toBeUndefined();
  });
});

describe('the environment that a command gets', () => {
  it('is a closed list, or the names of the setting, and never a secret', () => {
    expect(decision({ user: { mode: 'dev' } }, bash('ls')).obligations.environment).toEqual([
      'HOME',
      'LANG',
      'LC_*',
      'LOGNAME',
      'PATH',
      'SHELL',
      'TERM',
      'TMPDIR',
      'TZ',
      'USER',
    ]);
    const security = { env_allowlist: ['PATH', 'GITHUB_TOKEN', 'AWS_SECRET_ACCESS_KEY', 'APP_MODE'] };
    expect(decision({ user: { mode: 'dev' } }, bash('ls'), { security }).obligations.environment).toEqual([
      'APP_MODE',
      'PATH',
    ]);
  });
});
