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
