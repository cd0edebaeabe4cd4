import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  decide,
  factsOf,
  importLingxiao,
  loadPolicySet,
  POLICY_SCHEMA,
  parsePolicyFile,
  showProblem,
} from './index.ts';

const folder = new URL('../../../deploy/policies/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, folder), 'utf8');
const presets = readdirSync(folder).filter((name) => name !== 'policy.schema.json');
const problems = (text: string, file = 'p.yaml'): string[] => {
  const parsed = parsePolicyFile(text, file);
  return parsed.ok ? [] : parsed.error.map(showProblem);
};

function answer(preset: string, command: string) {
  const parsed = parsePolicyFile(read(preset), preset);
  if (!parsed.ok) throw new Error(parsed.error.map(showProblem).join('\n'));
  const set = loadPolicySet({ managed: parsed.value.layer });
  if (!set.ok) throw new Error('the preset does not load');
  const security = parsed.value.layer.defaults?.security ?? {};
  return decide(set.value, { tool: 'bash', args: { command } }, factsOf({ security }));
}

describe('shipped policies', () => {
  it('holds the presets and an example organisation', () => {
    expect(presets.sort()).toEqual([
      'default.yaml',
      'example-organisation.yaml',
      'foya.json',
      'hardened.yaml',
      'lingxiao.yaml',
    ]);
  });
  it.each(presets)('%s loads, and every rule in it is proven by match and notMatch', (name) => {
    expect(problems(read(name), name)).toEqual([]);
    const parsed = parsePolicyFile(read(name), name);
    if (!parsed.ok) return;
    const { lockedRules, defaults } = parsed.value.layer;
    const rules = [lockedRules, defaults].flatMap((l) => [
      ...(l?.allowRules ?? []),
      ...(l?.askRules ?? []),
      ...(l?.denyRules ?? []),
    ]);
    for (const rule of rules) {
      expect(rule.match?.length, rule.id).toBeGreaterThan(0);
      expect(rule.notMatch?.length, rule.id).toBeGreaterThan(0);
    }
  });
  it('the published schema is the one that files are checked with', () => {
    expect(JSON.parse(read('policy.schema.json'))).toEqual(JSON.parse(JSON.stringify(POLICY_SCHEMA)));
  });
  it('the presets differ where they say they do', () => {
    expect(answer('foya.json', 'ls').effect).toBe('ask');
    expect(answer('default.yaml', 'ls').effect).toBe('allow');
    expect(answer('lingxiao.yaml', 'sudo ls').effect).toBe('allow');
    expect(answer('hardened.yaml', 'sudo ls').effect).toBe('deny');
  });
  it.each([
    ['foya.json', 'strict', 'manual', 'auto', undefined],
    ['lingxiao.yaml', 'yolo', 'manual', 'app-guard', true],
    ['default.yaml', 'dev', 'manual', 'auto', false],
    ['hardened.yaml', 'dev', 'manual', 'auto', false],
  ] as const)('%s is mode %s, answered %s, backend %s, fallback %s', (name, mode, approval, backend, fallback) => {
    const parsed = parsePolicyFile(read(name), name);
    if (!parsed.ok) throw new Error('the preset cannot be read');
    const set = loadPolicySet({ managed: parsed.value.layer });
    if (!set.ok) throw new Error('the preset does not load');
    const { defaults } = parsed.value.layer;
    expect([set.value.mode, defaults?.approvalMode, set.value.backend, defaults?.allowBackendFallback]).toEqual([
      mode,
      approval,
      backend,
      fallback,
    ]);
  });
  it('the backend of lingxiao follows the mode of the session', () => {
    const parsed = parsePolicyFile(read('lingxiao.yaml'), 'lingxiao.yaml');
    if (!parsed.ok) throw new Error('the preset does not load');
    const set = loadPolicySet({ managed: parsed.value.layer, session: { mode: 'dev' } });
    expect(set.ok && set.value.backend).toBe('auto');
  });
  it('the example organisation sends a release to its queue for two people', () => {
    const decision = answer('example-organisation.yaml', 'cd pkg && npm publish --tag next');
    expect(decision.effect).toBe('ask');
    expect(decision.review).toEqual({ reviewer: 'human', queue: 'release', approvals: 2 });
  });
});

describe('a faulty file is refused whole with file, line, rule and suggestion', () => {
  it.each([
    [
      'security:\n  guardian_min_agreement: 1.5\n',
      'p.yaml:2: `security.guardian_min_agreement`: 1.5 is out of range; write a number from 0 to 1',
    ],
    [
      'security:\n  guardian_min_agreement: .nan\n',
      'p.yaml:2: `security.guardian_min_agreement`: NaN is out of range; write a number from 0 to 1',
    ],
    [
      'security:\n  on_failed_review: allow\n',
      'p.yaml:2: `security.on_failed_review`: `allow` is not one of deny, ask_human',
    ],
    ['mode: devv\n', 'p.yaml:1: `mode`: `devv` is not one of strict, dev, networked, yolo; write `dev`'],
    ['mode: dev\ndenyRule: []\n', 'p.yaml:2: `denyRule`: `denyRule` is not known here; write `denyRules`'],
    [
      'denyRules:\n  - toolName: bash\n    patern: rm *\n',
      'p.yaml:3: denyRules[0]: `denyRules[0].patern`: `patern` is not known here; write `pattern`',
    ],
    ['askRules:\n  - toolName: bash\n  - toolName: bsh\n', 'p.yaml:3: askRules[1]: `bsh` is not a tool; write `bash`'],
    [
      'lockedRules:\n  denyRules:\n    - toolName: web_fetch\n      pattern: a b\n',
      'p.yaml:3: lockedRules.denyRules[0]: `a b` is not a host pattern; write `example.com`, `*.example.com` or an exact address, with an optional port and path',
    ],
    [
      'allowRules:\n  - { toolName: bash, pattern: ls, match: [rm] }\n',
      'p.yaml:2: allowRules[0]: example `"rm"` does not match; correct the pattern or the example',
    ],
    ['mode: dev\nmode: yolo\n', 'p.yaml:2: Map keys must be unique; correct the syntax at this line'],
    ['a: &x 1\nmode: *x\n', 'p.yaml:2: an alias may not be used here; correct the syntax at this line'],
    ['- a\n', 'p.yaml:1: the file is a list; write a map'],
    ['trusted: true\n', 'p.yaml:1: `trusted`: `trusted` is not known here'],
  ])('%j', (text, wanted) => {
    expect(problems(text).join('\n')).toContain(wanted);
  });
  it('a file named .json must be strict JSON', () => {
    expect(problems('{"mode": "dev",}', 'p.json')[0]).toMatch(/^p\.json:1: /);
    expect(problems('mode: dev', 'p.json')[0]).toMatch(/^p\.json:1: /);
    expect(problems('{"mode": "dev"}', 'p.json')).toEqual([]);
  });
  it('a file nested beyond reason is refused, not thrown at the caller', () => {
    expect(problems('['.repeat(100000))).not.toEqual([]);
    expect(problems(`${'- '.repeat(50000)}a`)).not.toEqual([]);
  });
  it('an empty file is an empty layer', () => {
    expect(problems('')).toEqual([]);
  });
});

describe('permission files of lingxiao', () => {
  const context = {
    mode: 'approved',
    allowedHosts: ['docs.example'],
    sandboxBackend: 'auto',
    allowBackendFallback: true,
    allowRules: [{ toolName: 'shell', pattern: 'npm test', match: ['npm test'] }],
    askRules: [{ toolName: 'http_request', pattern: 'api.example' }],
    denyRules: [{ toolName: 'file_read', pattern: '**/secret.txt' }, { toolName: 'mcp__files__*' }],
  };
  const imported = (value: object) => {
    const read = importLingxiao(JSON.stringify(value, undefined, 2), 'permissions.json');
    return read.ok ? read.value.layer : read.error.map(showProblem);
  };
  it('become a policy under this product names of tools and modes, with the backend of the mode', () => {
    expect(imported(context)).toEqual({
      ...context,
      mode: 'networked',
      sandboxBackend: 'bubblewrap',
      allowRules: [{ toolName: 'bash', pattern: 'npm test', match: ['npm test'] }],
      askRules: [{ toolName: 'web_fetch', pattern: 'api.example' }],
      denyRules: [{ toolName: 'read', pattern: '**/secret.txt' }, { toolName: 'mcp__files__*' }],
    });
  });
  it.each([
    [{ mode: 'yolo' }, 'app-guard'],
    [{ mode: 'strict' }, 'bubblewrap'],
    [{ mode: 'standard' }, 'bubblewrap'],
    [{ mode: 'yolo', sandboxBackend: 'seatbelt' }, 'seatbelt'],
    [{}, undefined],
  ])('%j has the backend %s', (value, backend) => {
    expect((imported(value) as { sandboxBackend?: string }).sandboxBackend).toBe(backend);
  });
  it('are refused whole, by line, for a key or rule that is not understood', () => {
    expect(imported({ ...context, blockRules: [] })).toMatchObject([expect.stringContaining('blockRules')]);
    const broken = { ...context, denyRules: [{ toolName: 'shell', patern: 'rm *' }] };
    expect(imported(broken)).toMatchObject([expect.stringMatching(/^permissions.json:\d+: denyRules\[0\]: .*patern/)]);
    expect(imported({ mode: 'free' })).toMatchObject([expect.stringMatching(/^permissions.json:2: /)]);
  });
});
