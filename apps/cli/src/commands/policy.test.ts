import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const main = path.join(import.meta.dirname, '../main.ts');
const shipped = path.join(import.meta.dirname, '../../../../deploy/policies');
let folder = '';
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'countersign-policy-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, lines: readonly unknown[] | string): string {
  const target = path.join(folder, name);
  writeFileSync(target, typeof lines === 'string' ? lines : lines.map((line) => JSON.stringify(line)).join('\n'));
  return target;
}
function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, 'policy', ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}
const bash = (command: string) => ({ tool: 'bash', args: { command } });

describe('policy eval', () => {
  it('prints one JSON line per case and nothing else, and ends with 0 when all hold', () => {
    const cases = file('ok.jsonl', [
      { id: 'a', call: bash('ls'), expect: 'ask' },
      { id: 'b', permissions: { mode: 'dev' }, call: bash('ls'), expect: 'allow' },
    ]);
    const { status, stdout } = run('eval', '--cases', cases);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { id: string; effect: string });
    expect(lines.map(({ id, effect }) => [id, effect])).toEqual([
      ['a', 'ask'],
      ['b', 'allow'],
    ]);
    expect(Object.keys(lines[0] ?? {})).toEqual(['id', 'effect', 'reasons']);
    expect(status).toBe(0);
  });
  it('ends with 1 and names the case that does not hold', () => {
    const { status, stderr } = run(
      'eval',
      '--cases',
      file('bad.jsonl', [{ id: 'x', call: bash('ls'), expect: 'deny' }]),
    );
    expect(status).toBe(1);
    expect(stderr).toContain('not as expected: x');
  });
  it('ends with 2 when there is no such file', () => {
    expect(run('eval', '--cases', path.join(folder, 'none')).status).toBe(2);
  });
});

describe('policy test', () => {
  it('runs the examples of a shipped policy', () => {
    const { status, stdout } = run('test', path.join(shipped, 'example-organisation.yaml'));
    expect(stdout).toContain('9 rules');
    expect(status).toBe(0);
  });
  it('names file, line, rule and a suggestion, and ends with 1', () => {
    const bad = file('bad.yaml', 'denyRules:\n  - toolName: bash\n  - toolName: bsh\n');
    const { status, stderr } = run('test', bad);
    expect(stderr).toContain(`${bad}:3: denyRules[1]: \`bsh\` is not a tool; write \`bash\``);
    expect(status).toBe(1);
  });
});

describe('policy explain', () => {
  it('shows the deciding rule, who must review, the table row and what was ignored', () => {
    const local = file('local.json', JSON.stringify({ mode: 'yolo' }));
    const args = ['--policy', path.join(shipped, 'example-organisation.yaml'), `local=${local}`];
    const { stdout, status } = run('explain', ...args, '--call', JSON.stringify(bash('npm publish')));
    expect(stdout).toMatch(/^ask\n/);
    expect(stdout).toContain('deciding rule publish');
    expect(stdout).toContain('"queue":"release"');
    expect(stdout).toContain('mode networked');
    expect(stdout).toContain('ignored local mode `yolo`');
    expect(status).toBe(0);
  });
});

describe('policy simulate', () => {
  it('ends with 1 and warns when a call that a person denied would be allowed', () => {
    const calls = file('calls.jsonl', [
      { id: 'c1', agent: 'a', call: bash('npm publish'), effect: 'ask', human: 'denied' },
    ]);
    const next = file('next.yaml', 'allowRules:\n  - { toolName: bash, pattern: npm * }\n');
    const { stdout, status } = run('simulate', '--calls', calls, '--policy', `user=${next}`);
    expect(stdout).toContain('WARNING: 1 calls that a person denied would be allowed');
    expect(stdout).toContain('ask -> allow: 1');
    expect(status).toBe(1);
  });
  it('names the line that is not a recorded call', () => {
    const { stderr, status } = run(
      'simulate',
      '--calls',
      file('odd.jsonl', [{ call: bash('ls') }, { no: 1 }]),
      '--policy',
      path.join(shipped, 'foya.json'),
    );
    expect(stderr).toContain('odd.jsonl:2: not a recorded call');
    expect(status).toBe(2);
  });
});

describe('policy import', () => {
  const context = (more: object) =>
    JSON.stringify({ mode: 'standard', denyRules: [{ toolName: 'shell', pattern: 'git push*' }], ...more });

  it('makes a policy file that decides as the permission file did, and overwrites nothing', () => {
    const from = file('permissions.json', context({}));
    const out = path.join(folder, 'imported.json');
    expect(run('import', '--from', 'lingxiao', from, '--out', out).status).toBe(0);
    const push = run('explain', '--policy', `user=${out}`, '--tool', 'bash', '--value', 'git -C sub push');
    expect(push.stdout).toMatch(/^deny\n/);
    expect(run('explain', '--policy', `user=${out}`, '--tool', 'bash', '--value', 'ls').stdout).toMatch(/^allow\n/);
    const again = run('import', '--from', 'lingxiao', from, '--out', out);
    expect([again.status, again.stderr]).toEqual([2, expect.stringContaining('is there already')]);
  });

  it('refuses a file with a key it does not understand, and writes nothing', () => {
    const { status, stdout, stderr } = run('import', '--from', 'lingxiao', file('odd.json', context({ blocked: [] })));
    expect([status, stdout, stderr]).toEqual([1, '', expect.stringContaining('blocked')]);
  });
});
