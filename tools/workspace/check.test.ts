import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { checkWorkspace } from './check.ts';

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

type Files = Readonly<Record<string, string>>;

const manifest = (folder: string, dependencies: readonly string[] = [], exported = { '.': './src/index.ts' }) => ({
  [`${folder}/package.json`]: JSON.stringify({
    name: `@countersign/${path.basename(folder)}`,
    exports: folder.startsWith('apps/') ? undefined : exported,
    dependencies: Object.fromEntries(dependencies.map((name) => [`@countersign/${name}`, '0.1.0'])),
  }),
  [`${folder}/src/index.ts`]: 'export const here = true;\n',
});

const LIBS = ['kernel', 'patterns', 'policy', 'merkle', 'sandbox', 'protocol', 'agent', 'service-kit', 'testing'];
const APPS = ['audit', 'gateway', 'guardian', 'sandbox-runner', 'desk', 'cli'];
const CLEAN: Files = Object.assign(
  { 'tools/suppressions.json': '{"allowed": 0}' },
  ...LIBS.map((name) => manifest(`libs/${name}`)),
  ...APPS.map((name) => manifest(`apps/${name}`)),
);

function tree(changes: Files): string {
  const root = mkdtempSync(path.join(tmpdir(), 'countersign-workspace-'));
  roots.push(root);
  for (const [name, text] of Object.entries({ ...CLEAN, ...changes })) {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), text);
  }
  return root;
}

const found = (changes: Files): string[] =>
  checkWorkspace(tree(changes)).map(({ path: file, line, message }) => `${file}:${line} ${message}`);

const importing = (file: string, specifier: string): Files => ({ [file]: `export * from '${specifier}';\n` });

test('a tree that keeps the law passes', () => {
  expect(found({})).toEqual([]);
});

describe('an import that the rooms forbid is found', () => {
  test.each([
    ['libs/policy/src/a.ts', '@countersign/protocol'],
    ['libs/policy/src/a.ts', 'node:fs'],
    ['libs/policy/src/a.ts', 'fs'],
    ['libs/policy/src/a.ts', 'pg'],
    ['libs/protocol/src/a.ts', '@countersign/policy'],
    ['libs/protocol/src/a.ts', '@countersign/service-kit'],
    ['libs/service-kit/src/a.ts', '@countersign/agent'],
    ['libs/agent/src/a.ts', '@countersign/service-kit'],
    ['apps/gateway/src/a.ts', '@countersign/audit'],
    ['libs/agent/src/a.ts', '@countersign/cli'],
    ['apps/sandbox-runner/src/a.ts', '@countersign/policy'],
    ['apps/sandbox-runner/src/a.ts', 'kysely'],
    ['apps/sandbox-runner/src/a.ts', 'pg'],
    ['apps/sandbox-runner/src/a.ts', 'pg/lib/client'],
    ['apps/gateway/src/a.ts', 'kysely'],
    ['apps/guardian/src/a.ts', '@countersign/policy'],
    ['apps/desk/src/a.tsx', '@countersign/service-kit'],
    ['apps/desk/src/a.tsx', '@countersign/agent'],
    ['apps/cli/src/a.ts', '@countersign/testing'],
    ['apps/cli/src/a.ts', '@countersign/kernel/src/clock.ts'],
    ['apps/cli/src/a.test.ts', '@countersign/kernel/src/clock.ts'],
    ['apps/cli/src/a.ts', '../../../libs/kernel/src/index.ts'],
    ['apps/cli/src/a.test.ts', '../../gateway/src/index.ts'],
    ['libs/kernel/src/a.ts', '@countersign/kernel'],
    ['apps/cli/src/a.ts', '@countersign/nowhere'],
    ['apps/cli/src/a.ts', '/work/a.ts'],
  ])('%s <- %s', (file, specifier) => {
    const violations = found(importing(file, specifier));
    expect(violations).toHaveLength(1);
    expect(violations[0]).toContain(`${file}:1 `);
    expect(violations[0]).toContain(`\`${specifier}\``);
  });

  test.each([
    ['an import statement', "import { x } from 'pg';\nexport const y = x;\n"],
    ['a bare import', "import 'pg';\n"],
    ['a type import', "import type { Pool } from 'pg';\nexport type P = Pool;\n"],
    ['a type in place', "export type P = import('pg').Pool;\n"],
    ['a dynamic import', "export const later = () => import('pg');\n"],
    ['a named re-export', "export { Pool } from 'pg';\n"],
  ])('written as %s', (_title, text) => {
    expect(found({ 'apps/sandbox-runner/src/a.ts': text })).toHaveLength(1);
  });
});

describe('an import that the rooms allow passes', () => {
  test.each([
    ['libs/policy/src/a.ts', '@countersign/patterns'],
    ['libs/policy/src/a.ts', 'unbash'],
    ['libs/policy/src/a.ts', './index.ts'],
    ['libs/policy/src/a.test.ts', 'node:fs'],
    ['libs/protocol/src/a.ts', '@countersign/kernel'],
    ['libs/testing/src/a.ts', '@countersign/service-kit'],
    ['apps/audit/src/a.ts', 'kysely'],
    ['apps/desk/src/a.tsx', '@countersign/merkle'],
    ['apps/cli/src/a.test.ts', '@countersign/testing'],
  ])('%s <- %s', (file, specifier) => {
    expect(found(importing(file, specifier))).toEqual([]);
  });

  test('but never an app, whatever it exports', () => {
    const app = { 'apps/audit/package.json': '{"name": "@countersign/audit", "exports": {".": "./src/index.ts"}}' };
    expect(found({ ...app, ...importing('apps/cli/src/a.ts', '@countersign/audit') })).toEqual([
      'apps/cli/src/a.ts:1 an app is imported by nobody: `@countersign/audit`',
    ]);
  });

  test('a subpath that `exports` names', () => {
    const kit = manifest('libs/service-kit', [], { '.': './src/index.ts', './embedded': './src/e.ts' } as never);
    expect(found({ ...kit, ...importing('apps/cli/src/a.ts', '@countersign/service-kit/embedded') })).toEqual([]);
  });
});

describe('an effect in a pure library is found', () => {
  test.each([
    'export const now = () => Date.now();',
    "export const now = () => Date['now']();",
    'export const now = () => new Date();',
    'export const now = () => Date();',
    'export const luck = () => Math.random();',
    'export const where = () => process.cwd();',
    'export const home = () => globalThis.name;',
    'export const id = () => crypto.randomUUID();',
    'export const wait = (f: () => void) => setTimeout(f, 1);',
    'export const wait = (f: () => void) => queueMicrotask(f);',
    'export const get = (u: string) => fetch(u);',
    'export const box = () => ({ fetch });',
    'export type Later = Promise<string>;',
    'export const later = async () => 1;',
    'export async function later() {}',
    'export const n = 1;\nfor await (const a of []) a;',
    'export const file = import.meta.url;',
    'export const load = (name: string) => import(name);',
    'export const shout = () => console.log(1);',
    'export const measure = () => performance.now();',
  ])('%s', (text) => {
    expect(found({ 'libs/policy/src/a.ts': `${text}\n` }).length).toBeGreaterThan(0);
    expect(found({ 'apps/audit/src/a.ts': `${text}\n`, 'libs/policy/src/a.test.ts': `${text}\n` })).toEqual([]);
  });

  test.each([
    'export const at = (ms: number) => new Date(ms).toISOString();',
    'export const read = (rule: { process: string }) => rule.process;',
    'export const rule = { fetch: 1 };',
    "export const words = 'process fetch Date.now()'; // process, setTimeout",
    'export const top = (a: number) => Math.max(a, 1);',
  ])('what only looks like one passes: %s', (text) => {
    expect(found({ 'libs/policy/src/a.ts': `${text}\n` })).toEqual([]);
  });
});

test('packages that use each other are found, by declaration or by import', () => {
  const declared = found({ ...manifest('libs/kernel', ['patterns']), ...manifest('libs/patterns', ['kernel']) });
  expect(declared).toContain(
    'libs/kernel:1 packages use each other: @countersign/kernel -> @countersign/patterns -> @countersign/kernel',
  );
  const imported = found({
    ...importing('libs/kernel/src/a.ts', '@countersign/policy'),
    ...importing('libs/policy/src/a.ts', '@countersign/merkle'),
    ...importing('libs/merkle/src/a.ts', '@countersign/kernel'),
  });
  expect(imported).toHaveLength(3);
});

test('a library without a place in the law is found', () => {
  expect(found(manifest('libs/extra'))).toEqual([
    'libs/extra:1 @countersign/extra has no place in the import law; give it one',
  ]);
});

describe('sizes', () => {
  const lines = (count: number) => 'export {};\n'.repeat(count);

  test.each([
    ['apps/cli/src/a.ts', 400],
    ['apps/cli/src/a.test.ts', 600],
  ])('%s may have %i lines and not one more', (file, limit) => {
    expect(found({ [file]: lines(limit) })).toEqual([]);
    expect(found({ [file]: lines(limit + 1) })).toEqual([
      `${file}:${limit + 1} ${limit + 1} lines, ${limit} are allowed`,
    ]);
  });

  test('generated and installed code is not measured', () => {
    expect(found({ 'libs/protocol/src/gen/a.ts': lines(900), 'node_modules/x/a.ts': lines(900) })).toEqual([]);
  });

  test('a file that cannot be parsed is a violation, not a pass', () => {
    expect(found({ 'apps/cli/src/a.ts': 'export const = ;\n' })[0]).toContain('cannot be parsed');
  });
});

describe('suppressions', () => {
  const suppressed = '// biome-ignore lint/style/useConst: the parser writes it\nexport const a = 1;\n';
  const file = 'apps/cli/src/a.ts';

  test('one more than the stored number is found', () => {
    expect(found({ [file]: suppressed })).toEqual([
      'tools/suppressions.json:1 1 suppressions, 0 are allowed; mend the code instead',
    ]);
    expect(found({ [file]: suppressed, 'tools/suppressions.json': '{"allowed": 1}' })).toEqual([]);
  });

  test.each([
    '// biome-ignore lint/style/useConst: ',
    '// biome-ignore lint/style/useConst',
    '// biome-ignore lint/style/useConst: <explanation>',
    '/* biome-ignore lint/style/useConst: */',
    '// @ts-expect-error',
    '// @ts-ignore',
  ])('one without a reason is found: %s', (comment) => {
    const changes = { [file]: `${comment}\nexport const a = 1;\n`, 'tools/suppressions.json': '{"allowed": 9}' };
    expect(found(changes)).toEqual([`${file}:1 a suppression needs a reason`]);
  });

  test('a stored number that cannot be read is a fault', () => {
    expect(() => found({ 'tools/suppressions.json': '{"allowed": "many"}' })).toThrow(/whole number/);
  });
});

test('a folder without packages is a fault, not a pass', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'countersign-workspace-'));
  roots.push(root);
  mkdirSync(path.join(root, 'libs'));
  mkdirSync(path.join(root, 'apps'));
  expect(() => checkWorkspace(root)).toThrow(/no packages/);
});

test('the command ends with 1 and names the place', () => {
  const root = tree(importing('libs/policy/src/a.ts', 'node:fs'));
  const command = path.join(import.meta.dirname, '../check-workspace.ts');
  const { status, stderr } = spawnSync(process.execPath, [command, root], { encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stderr).toContain('libs/policy/src/a.ts:1 ');
});

describe('the threat model', () => {
  const file = 'apps/audit/src/a.test.ts';
  const model = (row: string, item: string): Files => ({
    [file]: "test('nothing runs', () => {});\n",
    'docs/threat-model.md': `| stolen | can |\n|---|---|\n| ${row} | x |\n\n${item}\n`,
  });

  test('a row whose tests exist passes', () => {
    expect(found(model('a key', `- a key: \`${file}\` “nothing runs”`))).toEqual([]);
  });

  test.each<[string, string, string]>([
    ['no line of tests', '- another: x', 'the row `a key` has no tests'],
    ['no test in its line', '- a key: see the tests', 'names no test'],
    ['a file that is not there', '- a key: `apps/audit/src/b.test.ts` “nothing runs”', 'which does not exist'],
    ['a title that is not there', `- a key: \`${file}\` “everything runs”`, 'which is no title'],
  ])('a row with %s is told', (_title, item, message) => {
    expect(found(model('a key', item)).join('\n')).toContain(message);
  });
});
