import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const repository = path.join(import.meta.dirname, '../../..');
const vectors = ['cases.jsonl', 'more.jsonl', 'kinds.jsonl', 'attacks.jsonl'].map((name) =>
  path.join(repository, 'vectors/policy', name),
);

/** What is dropped, the file below `libs`, the exact text, and what stands there instead. */
const MUTANTS: readonly (readonly [string, string, string, string])[] = [
  ['deny outranks ask', 'policy/src/decide.ts', "denied.length > 0 ? 'deny' :", "denied.length > 99 ? 'deny' :"],
  ['an open ask is an ask', 'policy/src/decide.ts', "open.length > 0 ? 'ask' :", "open.length > 99 ? 'ask' :"],
  [
    'the schema check',
    'policy/src/decide.ts',
    'if (problem !== undefined) return refusal',
    'if (problem === null) return refusal',
  ],
  [
    'unknown tools',
    'policy/src/decide.ts',
    "if (actionOf(tool) === undefined && call.executor !== 'agent')",
    'if (actionOf(tool) === null)',
  ],
  ['tighten', 'policy/src/decide.ts', 'if (call.tighten !== undefined)', 'if (call.tighten === null)'],
  ['profile judgement', 'policy/src/decide.ts', ', ...judgeProfile(call, set, facts)]', ']'],
  [
    'the full-access ceiling of the profile',
    'policy/src/decide.ts',
    'const barred = set.ceilings.fullAccess === false',
    'const barred = set.ceilings.fullAccess === null',
  ],
  ['suspicious paths', 'policy/src/decide.ts', 'const odd = findSuspicious(given)', 'const odd = undefined'],
  [
    'deleting a root by tool',
    'policy/src/decide.ts',
    "action === 'delete' && judgesRoot",
    "action === 'read' && judgesRoot",
  ],
  ['suspicious commands', 'policy/src/judge-bash.ts', 'const odd = findSuspicious(command);', 'const odd = undefined;'],
  ['fork bombs', 'policy/src/judge-bash.ts', 'if (isForkBomb(command))', 'if (false)'],
  [
    'problems of the parser',
    'policy/src/judge-bash.ts',
    'for (const p of walk.problems)',
    'for (const p of [] as string[])',
  ],
  ['commands that hold nothing', 'policy/src/judge-bash.ts', 'if (walk.simples.length === 0)', 'if (false)'],
  ['root-destroying forms', 'policy/src/judge-bash.ts', 'if (root !== undefined)', 'if (root === null)'],
  ['risky forms', 'policy/src/judge-bash.ts', 'if (risky === undefined)', 'if (true)'],
  ['the dangerous command guard', 'policy/src/judge-bash.ts', 'if (security.dangerous_command_guard ||', 'if ('],
  [
    'redirects',
    'policy/src/judge-bash.ts',
    'const out = simple.redirects.flatMap',
    'const out: Finding[] = [] as Simple["redirects"][number][] as never[]; void [].flatMap',
  ],
  ['written operands', 'policy/src/judge-bash.ts', 'for (const t of targets)', 'for (const t of [] as typeof targets)'],
  [
    'literal arguments as reads',
    'policy/src/judge-bash.ts',
    'out.push(...judgePath(judge.reads, word.text',
    'void (judgePath(judge.reads, word.text',
  ],
  [
    'assignments',
    'policy/src/judge-bash.ts',
    'for (const a of simple.assigns)',
    'for (const a of [] as typeof simple.assigns)',
  ],
  [
    'environment of the call',
    'policy/src/judge-bash.ts',
    'for (const name of Object.keys(call.env ?? {}))',
    'for (const name of [] as string[])',
  ],
  ['writing without a sandbox', 'policy/src/judge-bash.ts', 'if (!judge.sandboxed && !named &&', 'if (false &&'],
  ['possible writes', 'policy/src/judge-bash.ts', 'if (!named)\n', 'if (false)\n'],
  [
    'variants without options',
    'policy/src/command-rules.ts',
    "if (!(rest[at]?.text ?? '').startsWith('-')) continue;",
    'continue;',
  ],
  ['possible matches', 'policy/src/command-rules.ts', 'if (fits(r.pattern, text)) add(', 'if (false) add('],
  ['unknown launchers', 'policy/src/command-rules.ts', 'if (!takesData(words))', 'if (false)'],
  ['unresolved words in an allow', 'policy/src/command-rules.ts', 'words.some((x) => x.unresolved) ||', ''],
  ['programs given by a path', 'policy/src/command-rules.ts', "(!first.text.includes('/') ||", '(true ||'],
  [
    'option hazards',
    'policy/src/command-rules.ts',
    'hazards.length === 0 : spellsAll(pattern, hazards)',
    'true : true',
  ],
  ['how often an option is spelled', 'policy/src/command-rules.ts', 'words.splice(at, 1);', ''],
  ['git options', 'policy/src/bash/hazards.ts', "if (name === 'git') return gitHazards(rest);", ''],
  ['sed scripts', 'policy/src/bash/hazards.ts', 'if (/^g?sed$/.test(name)) return sedHazards(words);', ''],
  ['awk programs', 'policy/src/bash/hazards.ts', 'return awkHazards(rest);', 'return [];'],
  ['tee', 'policy/src/bash/hazards.ts', "if (name === 'tee')", "if (name === 'tea')"],
  [
    'wrappers',
    'policy/src/bash/wrappers.ts',
    'if (wrapper !== undefined) return openWrapper',
    'if (wrapper === null) return openWrapper',
  ],
  ['shells', 'policy/src/bash/wrappers.ts', 'if (SHELLS.has(name)) return openShell(simple);', ''],
  ['eval', 'policy/src/bash/wrappers.ts', "case 'eval':", "case 'evil':"],
  ['ssh', 'policy/src/bash/wrappers.ts', "case 'ssh': {", "case 'sch': {"],
  ['trap', 'policy/src/bash/wrappers.ts', "case 'trap': {", "case 'drop': {"],
  ['aliases', 'policy/src/bash/wrappers.ts', "case 'alias':", "case 'alas':"],
  ['find -exec', 'policy/src/bash/wrappers.ts', "case 'find':", "case 'fund':"],
  [
    'substitutions',
    'policy/src/bash/walk.ts',
    'forEachChild(node, (child) => substitutions(child, scope, walk, role));\n  const words',
    'const words',
  ],
  [
    'here-documents',
    'policy/src/bash/walk.ts',
    "else if (r.type === 'HereDoc')",
    "else if (r.type === ('None' as never))",
  ],
  [
    'the state of a subshell',
    'policy/src/bash/walk.ts',
    "case 'Coproc': {\n      const inner = cloneScope(scope);",
    "case 'Coproc': {\n      const inner = scope;",
  ],
  [
    'state after branches',
    'policy/src/bash/walk.ts',
    'visit(node.else, failed, walk, role, piped);\n  taint(node, scope);',
    'visit(node.else, failed, walk, role, piped);',
  ],
  [
    'rounds of a loop',
    'policy/src/bash/walk.ts',
    "if (node.type === 'For') visitRounds",
    "if (node.type === ('None' as never)) visitRounds",
  ],
  ['the limit of commands', 'policy/src/bash/walk.ts', "report(walk, 'over 256 simple commands');", ''],
  ['the limit of size', 'policy/src/bash/walk.ts', "report(walk, 'the command is over 64 KiB');", ''],
  ['literal cd', 'policy/src/bash/walk.ts', '  updateState(words, scope);\n}', '}'],
  ['output through a pipe', 'policy/src/bash/stream.ts', "case 'echo':", "case 'ecco':"],
  ['here-documents through cat', 'policy/src/bash/stream.ts', "case 'cat':", "case 'cut':"],
  ['private hosts', 'policy/src/judge-host.ts', 'isPrivateHost(target.host))', 'false)'],
  [
    'forbidden hosts',
    'policy/src/judge-host.ts',
    'const forbidden = tight.some((one) => set.index.forbidden.holds(one, true));',
    'const forbidden = false;',
  ],
  ['hardened hosts', 'policy/src/judge-host.ts', 'if (hardened && !listed)', 'if (false)'],
  [
    'every port of a deny',
    'policy/src/judge-host.ts',
    "pattern.matches(one, rule.effect !== 'allow')",
    'pattern.matches(one, false)',
  ],
  [
    'real paths',
    'policy/src/path-rules.ts',
    '|| glob.matchesTight(real, facts.caseInsensitive)) return true;',
    ') return true;',
  ],
  [
    'both spellings of an allow',
    'policy/src/path-rules.ts',
    'return glob.matches(path) && glob.matches(real);',
    'return glob.matches(path);',
  ],
  [
    'base names outside the project',
    'policy/src/path-rules.ts',
    'if (glob.baseOnly && !(isInside',
    'if (false && !(isInside',
  ],
  ['ancestors', 'policy/src/path-rules.ts', 'return removes && ', 'return false && '],
  ['the ceiling of the mode', 'policy/src/layers.ts', 'layers.managed?.ceilings?.mode ??', 'undefined ??'],
  [
    'workspace allows',
    'policy/src/layers.ts',
    "if (rule.effect === 'allow' && fromWorkspace(name, trusted))",
    'if (false)',
  ],
  ['workspace modes', 'policy/src/layers.ts', 'cap = stricter(cap, layer.mode);', ''],
  ['names that steer a program', 'policy/src/environment.ts', ' && !STEERING.test(name)', ''],
  ['names that hold secrets', 'policy/src/environment.ts', '=== true && !CREDENTIAL.test(name)', '=== true'],
  ['unknown keys of a rule', 'policy/src/load.ts', 'if (unknown !== undefined) {', 'if (unknown === null) {'],
  ['locked rules', 'policy/src/layers.ts', "...rulesOf(managed.lockedRules ?? {}, 'managed'), ", ''],
  ['full_access ceiling', 'policy/src/lift.ts', ' && set.ceilings.fullAccess !== false', ''],
  ['unattended only if managed says so', 'policy/src/lift.ts', 'set.ceilings.eternal === true &&', ''],
  ['unattended never when hardened', 'policy/src/lift.ts', ' && !facts.security.hardened_mode', ''],
  ['what yolo lifts', 'policy/src/lift.ts', 'if (LIFTABLE.has(finding.kind)) {', 'if (finding) {'],
  ['what grants lift', 'policy/src/lift.ts', "kind === 'table' || (kind === 'rule' && rule !== undefined)", 'true'],
  [
    'the rule of a grant',
    'policy/src/lift.ts',
    "(finding.kind === 'table' ?",
    "(finding.kind === 'rule' ? true : finding.kind === 'table' ?",
  ],
  ['families', 'policy/src/tools.ts', 'return head !== undefined && names(rule.tool, head);', 'return false;'],
  [
    'allows cover one tool',
    'policy/src/tools.ts',
    "if (rule.effect === 'allow') return shell",
    "if (rule.effect === ('none' as never)) return shell",
  ],
  [
    'invalid rules',
    'policy/src/load.ts',
    'return problems.length > 0 ? err(problems) :',
    'return problems.length > 99 ? err(problems) :',
  ],
  ['match examples', 'policy/src/load.ts', 'for (const e of rule.match ?? [])', 'for (const e of [] as string[])'],
  ['confined stars', 'patterns/src/command-pattern.ts', "else if (t.kind === 'any' ||", 'else if (true ||'],
  ['dot-dot in a confined star', 'patterns/src/command-pattern.ts', "!text.split(/[\\s/:=]/).includes('..') &&", ''],
  [
    'extra arguments of a deny',
    'patterns/src/command-pattern.ts',
    '[tokens, bare, extended].flatMap',
    '[tokens, bare].flatMap',
  ],
  [
    'rules found beside the words of a command',
    'patterns/src/prefix-index.ts',
    'out.push(...at.whole);\n      if (space',
    'if (space',
  ],
  ['paths found by their folder', 'patterns/src/path-index.ts', 'at > 0; at =', 'at > 99; at ='],
  ['drives of Windows', 'patterns/src/windows-path.ts', 'if (drive === null)', 'if (true)'],
  ['short names of Windows', 'patterns/src/path-glob.ts', '(shortNames && name', '(false && name'],
  ['settings of layers', 'policy/src/effective-facts.ts', 'set.security === undefined ?', 'true ?'],
  ['hardened sandboxes', 'policy/src/decide.ts', '!facts.security.hardened_mode || !runs ||', 'true ||'],
  ['deletions by commands', 'policy/src/judge-bash.ts', 'removes ? judge.deletes :', 'removes ? judge.writes :'],
  ['lists that may stop', 'policy/src/bash/walk.ts', 'for (const end of ends) mergeScope(scope, end);', ''],
  ['branches apart', 'policy/src/bash/walk.ts', 'visit(node.then, cloneScope(held)', 'visit(node.then, held'],
  ['calls of functions', 'policy/src/bash/walk.ts', 'if (body === undefined) return;', 'return;'],
  ['texts borne by options', 'policy/src/bash/walk.ts', '...borneBy(simple)]', ']'],
  ['the folder of a wrapper', 'policy/src/bash/walk.ts', 'folder === undefined ?', 'true ?'],
  [
    'assignments before a shell',
    'policy/src/judge-bash.ts',
    "(simple.role === 'strict' && simple.wraps !== true)",
    "simple.role === 'strict'",
  ],
  ['redirects from the network', 'policy/src/judge-bash.ts', 'if (!connects &&', 'if ('],
  ['deletes that may be of the root', 'policy/src/judge-bash.ts', 'root === undefined && mayBeRoot(simple)', 'false'],
  ['fetched files that are run', 'policy/src/judge-bash.ts', 'out.push(...fetchedFindings(walk.simples, judge));', ''],
  ['words that xargs reads', 'policy/src/bash/wrappers.ts', 'return [...each, ...filled];', 'return each;'],
  ['files that xargs gets from find', 'policy/src/bash/wrappers.ts', 'return [...each, ...filled];', 'return filled;'],
  [
    'commands in program text',
    'policy/src/command-rules.ts',
    'for (const r of startedInCode(simple, rules))',
    'for (const r of [] as CommandRule[])',
  ],
  ['programs of git by their own name', 'policy/src/command-rules.ts', ".replace(/^git-(?=[a-z])/, 'git ')", ''],
  ['homes of others', 'policy/src/guards/root-destroying.ts', 'if (OTHER_HOME.test(word.source)) return true;', ''],
  ['texts that the shell generates', 'policy/src/guards/risky.ts', 'if (stdin && isGenerated(simple))', 'if (false)'],
  [
    'addresses that carry another',
    'policy/src/judge-host.ts',
    'carried === undefined ? [target] :',
    'true ? [target] :',
  ],
  ['encoded paths of hosts', 'patterns/src/host.ts', ' && !AMBIGUOUS.test(path)', ''],
  [
    'plain forms of paths of hosts',
    'patterns/src/host.ts',
    'return under(path) || under(plainPath(',
    'return under(path) || under(String(',
  ],
  ['patterns as data', 'policy/src/bash/programs.ts', 'if (attached?.test(word.text) === true) continue;', ''],
];

let root = '';
let survivors: string[] = [];
let stale: string[] = [];

const RUNNER = `
import { readFileSync } from 'node:fs';
const [folders, ...files] = process.argv.slice(2);
const cases = files.flatMap((f) => readFileSync(f, 'utf8').split('\\n').filter((l) => l !== '').map((l) => JSON.parse(l)));
for (const folder of folders.split(',')) {
  const { evaluateCase } = await import(folder + '/policy/src/index.ts');
  const failing = cases.find((c) => !evaluateCase(c).ok);
  console.log(JSON.stringify([folder, failing?.id ?? null]));
}`;

function mutate(index: number, [, file, text, instead]: (typeof MUTANTS)[number]): string | undefined {
  const source = readFileSync(path.join(repository, 'libs', file), 'utf8');
  if (source.split(text).length !== 2) return undefined;
  const folder = path.join(root, String(index));
  for (const lib of ['policy', 'patterns']) {
    cpSync(path.join(repository, 'libs', lib), path.join(folder, lib), {
      recursive: true,
      filter: (from) => !from.endsWith('.test.ts') && !from.includes('node_modules'),
    });
  }
  mkdirSync(path.join(folder, 'node_modules/@countersign'), { recursive: true });
  for (const lib of ['policy', 'patterns'])
    symlinkSync(path.join(folder, lib), path.join(folder, 'node_modules/@countersign', lib));
  symlinkSync(path.join(repository, 'libs/kernel'), path.join(folder, 'node_modules/@countersign/kernel'));
  for (const name of ['unbash', 'yaml', 'ipaddr.js', 'tldts', 'tldts-core'])
    symlinkSync(path.join(repository, 'node_modules', name), path.join(folder, 'node_modules', name));
  writeFileSync(
    path.join(folder, file),
    source.replace(text, () => instead),
  );
  return folder;
}

beforeAll(() => {
  root = mkdtempSync(path.join(tmpdir(), 'countersign-mutants-'));
  const folders = MUTANTS.map((mutant, i) => mutate(i, mutant));
  stale = MUTANTS.filter((_, i) => folders[i] === undefined).map(([name]) => name);
  const runner = path.join(root, 'runner.ts');
  writeFileSync(runner, RUNNER);
  const made = folders.filter((folder) => folder !== undefined);
  const { stdout, stderr, status } = spawnSync(process.execPath, [runner, made.join(','), ...vectors], {
    encoding: 'utf8',
    timeout: 240_000,
  });
  if (status !== 0) throw new Error(`the run of the mutants failed: ${stderr.slice(-2000)}`);
  survivors = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as [string, string | null])
    .filter(([, failing]) => failing === null)
    .map(([folder]) => MUTANTS[Number(path.basename(folder))]?.[0] ?? folder);
}, 300_000);

afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('dropping a guard, a rule kind or a check makes some case fail', () => {
  it('every mutation still finds the text that it changes', () => {
    expect(stale).toEqual([]);
  });
  it.each(MUTANTS.map(([name]) => name))('%s', (name) => {
    expect(survivors).not.toContain(name);
  });
});
