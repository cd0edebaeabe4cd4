import { findSuspicious, isInside, normalisePath } from '@countersign/patterns';
import { hazardOptions } from './bash/hazards.ts';
import { onlyReads, readCandidates, writeTargets } from './bash/programs.ts';
import { type Redirected, type Simple, type Walk, walkText } from './bash/walk.ts';
import type { Resolved } from './bash/words.ts';
import { baseName, SHELLS } from './bash/wrappers.ts';
import { coveringAllows, judgeCommandRules, namesProgram } from './command-rules.ts';
import { isHarmlessName } from './environment.ts';
import { runsFetchedFile } from './guards/fetched-files.ts';
import { riskyForm } from './guards/risky.ts';
import { isForkBomb, mayBeRoot, rootDestroyingForm } from './guards/root-destroying.ts';
import { tableAllows } from './modes.ts';
import { isAllowed, judgePath, realPath, show } from './path-rules.ts';
import type { CommandRules, PathRules } from './rule-index.ts';
import type { Call, Facts, Finding, PolicySet } from './types.ts';

interface Judge {
  readonly set: PolicySet;
  readonly facts: Facts;
  readonly tool: string;
  readonly commands: CommandRules;
  readonly writes: PathRules;
  readonly reads: PathRules;
  /** The write rules, and those about deleting. */
  readonly deletes: PathRules;
  /** What runs is bounded by a real sandbox. */
  readonly sandboxed: boolean;
  /** The mode table allows execution here. */
  readonly tableAllows: boolean;
}

const unreadable = (text: string): Finding => ({ effect: 'ask', kind: 'unreadable', text });
const LAUNCHERS =
  /^(python[\d.]*|node|nodejs|npx|bunx|pnpx|uvx|ssh|env|xargs|find|fd|docker|podman|kubectl|sudo|doas|su|perl|ruby|php|lua|deno|bun|tsx|eval|source|\.|awk|gawk|watch|parallel|busybox|nohup|timeout|pwsh|powershell|just|task|rake|ant|gradlew?|mvnw?|java|scala|kotlin|dotnet|tmux|screen|systemd-run|flock|strace|entr|uv|pipx|poetry|pipenv|bundle|tclsh|expect|osascript|R|Rscript|julia|jshell)$/;
/** Sub-commands with which package managers and toolchains run what a word names. */
const RUNS_WORD: Readonly<Record<string, RegExp>> = {
  npm: /^(exec|x|explore)$/,
  pnpm: /^(exec|dlx)$/,
  yarn: /^(exec|dlx|node)$/,
  go: /^(run|tool|generate)$/,
  cargo: /^run$/,
  git: /^(bisect|filter-branch|submodule|rebase|difftool|mergetool|config)$/,
};

/** The grant scopes that would cover one simple command; the last is the one that is offered. */
export function bashScopes(words: readonly Resolved[], cwd: string): string[] {
  const program = words[0]?.text ?? '';
  const exact = `${cwd} :: ${words.map((x) => x.text).join(' ')}`;
  const name = baseName(program);
  const sub = words.slice(1).find((x) => !x.text.startsWith('-'))?.text ?? '';
  const launches = Object.hasOwn(RUNS_WORD, name) && RUNS_WORD[name]?.test(sub) === true;
  const only = launches || LAUNCHERS.test(name) || SHELLS.has(name) || hazardOptions(words).length > 0;
  // A grant for `make` covers it, but only the exact command is offered: what a target runs is not told here.
  if (name === 'make' && !only) return [exact, `${cwd} :: ${program}`, exact];
  return only ? [exact] : [exact, `${cwd} :: ${program}`];
}

const isDevice = (text: string): boolean => /^\/dev\/(null|stdin|stdout|stderr)$/.test(text);

function redirectFindings(r: Redirected, simple: Simple, judge: Judge): Finding[] {
  const text = r.target.text;
  if ((r.op === '>&' || r.op === '<&') && /^(\d+-?|-)$/.test(text)) return [];
  if (isDevice(text)) return [];
  const { facts } = judge;
  const connects = /^\/dev\/(tcp|udp)\//.test(text);
  if (!connects && (r.op === '<' || r.op === '<&'))
    return judgePath(judge.reads, text, simple.cwd, facts, 'read from', false);
  const out = judgePath(judge.writes, text, simple.cwd, facts, 'write to', false);
  if (r.op === '<>') out.push(...judgePath(judge.reads, text, simple.cwd, facts, 'read from', false));
  if (judge.tableAllows || simple.role === 'strict' || out.some((f) => f.kind === 'rule')) return out;
  const known = !r.target.unresolved && simple.cwd !== undefined;
  const path = normalisePath(text, simple.cwd ?? facts.cwd, facts.home);
  const real = realPath(path, facts);
  if (known && isAllowed(judge.writes, path, real, facts)) return out;
  const scopes = known ? writeScopes(path, facts) : [];
  return [
    ...out,
    {
      effect: 'ask',
      kind: 'table',
      text: `redirect to \`${show(text)}\` is covered by no write rule`,
      grant: { tool: 'write', action: 'write', scopes },
    },
  ];
}

/** The grant scope of a write: the project, or the exact path outside. */
export const writeScopes = (path: string, facts: Facts): string[] => {
  const real = realPath(path, facts);
  if (isInside(path, facts.project)) return isInside(real, facts.project) ? [facts.project] : [real];
  return path === real ? [path] : [real];
};

function fileFindings(simple: Simple, judge: Judge): Finding[] {
  const { facts } = judge;
  const out = simple.redirects.flatMap((r) => redirectFindings(r, simple, judge));
  const name = baseName(simple.words[0]?.text ?? '');
  const removes =
    /^(rm|mv|rmdir|shred|unlink|chmod|chown)$/.test(name) ||
    (name === 'find' && simple.words.some((x) => x.text === '-delete')) ||
    (name === 'git' && /^(rm|mv)$/.test(simple.words[1]?.text ?? ''));
  const targets = writeTargets(simple);
  for (const t of targets)
    if (!isDevice(t.text))
      out.push(
        ...judgePath(
          removes ? judge.deletes : judge.writes,
          t.text.replace(/(?<=.)\/+$/, ''),
          simple.cwd,
          facts,
          `${name} writes`,
          removes,
        ),
      );
  for (const word of readCandidates(simple)) {
    if (word.unresolved || simple.cwd === undefined) continue;
    out.push(...judgePath(judge.reads, word.text, simple.cwd, facts, `${show(name)} reads`, false));
  }
  if (judge.writes.tight.length === 0 || onlyReads(simple.words) || simple.words.length === 0) return out;
  const named = targets.length > 0 && name !== 'git';
  if (!named)
    for (const word of readCandidates(simple)) {
      if (word.unresolved || simple.cwd === undefined) continue;
      for (const f of judgePath(judge.writes, word.text, simple.cwd, facts, `${show(name)} may write`, false))
        out.push({ ...f, effect: 'ask', kind: 'possible' });
    }
  if (!judge.sandboxed && !named && simple.wraps !== true)
    out.push({
      effect: 'ask',
      kind: 'table',
      text: `\`${show(name)}\` may write anywhere without a sandbox while write rules exist`,
    });
  return out;
}

function guardFindings(simple: Simple, judge: Judge): Finding[] {
  const root = rootDestroyingForm(simple, judge.facts);
  if (root === undefined && mayBeRoot(simple)) {
    const shown = show(simple.words.map((x) => x.text).join(' '));
    return [
      { effect: 'ask', kind: 'possible', text: `\`${shown}\` deletes the root when what is unresolved is empty` },
    ];
  }
  const risky = root === undefined ? riskyForm(simple) : undefined;
  if (root === undefined && risky === undefined) return [];
  const text = show(simple.words.map((x) => x.text).join(' '));
  if (root !== undefined)
    return [{ effect: 'deny', kind: 'rule', text: `\`${text}\` is a root-destroying form: ${root}` }];
  if (risky === undefined) return [];
  const { security } = judge.facts;
  const reason = `\`${text}\` is a risky form: ${risky.form}`;
  if (security.dangerous_command_guard || security.hardened_mode) {
    const plain = risky.plainDelete && deletesOnlyInside(simple, judge.facts);
    return plain
      ? [{ effect: 'ask', kind: 'possible', text: reason }]
      : [{ effect: 'deny', kind: 'rule', text: reason }];
  }
  if (coveringAllows(simple, judge.commands.allow).some((allow) => namesProgram(allow, simple))) return [];
  return [{ effect: 'ask', kind: 'risky', text: reason }];
}

/** Files that the text itself fetches and then runs. */
function fetchedFindings(simples: readonly Simple[], { facts }: Judge): Finding[] {
  const { security } = facts;
  const denies = security.dangerous_command_guard || security.hardened_mode;
  return runsFetchedFile(simples, facts.home).map((simple) => {
    const text = `\`${show(simple.words.map((x) => x.text).join(' '))}\` is a risky form: fetch-and-run`;
    const at = simple.at === undefined ? {} : { at: simple.at };
    return denies ? { effect: 'deny', kind: 'rule', text, ...at } : { effect: 'ask', kind: 'risky', text, ...at };
  });
}

function deletesOnlyInside(simple: Simple, facts: Facts): boolean {
  const finds = baseName(simple.words[0]?.text ?? '') === 'find';
  const operands = simple.words.slice(1).filter((x) => !x.text.startsWith('-'));
  return operands.every((x) => {
    if (x.unresolved || simple.cwd === undefined) return false;
    const path = normalisePath(x.text, simple.cwd, facts.home);
    const real = realPath(path, facts);
    const roots = [facts.project, '/tmp', '/var/tmp', `${facts.home}/.cache`];
    return [path, real].every((p) => roots.some((root) => (finds || p !== root) && isInside(p, root)));
  });
}

function scopesOf(simple: Simple, facts: Facts): string[] {
  if (simple.cwd === undefined || simple.words.some((x) => x.unresolved)) return [];
  return bashScopes(simple.words, normalisePath(simple.cwd, '/', facts.home));
}

function simpleFindings(simple: Simple, judge: Judge): Finding[] {
  const raised = judgeCommandRules(simple, judge.commands.tight);
  const scopes = raised.length > 0 || !judge.tableAllows ? scopesOf(simple, judge.facts) : [];
  const granted = raised.map((f) => ({ ...f, grant: { tool: judge.tool, action: 'execute', scopes } }));
  const out: Finding[] = [...granted, ...guardFindings(simple, judge), ...fileFindings(simple, judge)];
  if (judge.tableAllows || (simple.role === 'strict' && simple.wraps !== true)) return out;
  const grant = { tool: judge.tool, action: 'execute', scopes: [] as string[] };
  for (const a of simple.assigns)
    if (!isHarmlessName(a.name, judge.set))
      out.push({
        effect: 'ask',
        kind: 'table',
        text: `assignment of \`${show(a.name)}\` is covered by no allow rule`,
        grant,
      });
  if (
    simple.wraps === true ||
    simple.words.length === 0 ||
    coveringAllows(simple, judge.commands.allow).length > 0 ||
    out.some((f) => f.kind === 'rule' && f.effect === 'ask' && f.rule?.tool !== 'write' && f.rule?.tool !== 'read')
  )
    return out;
  const missing = simple.words.find((x) => x.unresolved);
  const text = show(simple.words.map((x) => x.text).join(' '));
  const why =
    missing === undefined ? 'is covered by no allow rule' : `holds the unresolved word \`${show(missing.source)}\``;
  return [
    ...out,
    {
      effect: 'ask',
      kind: 'table',
      text: `\`${text}\` ${why} (${judge.set.mode} execute)`,
      grant: { ...grant, scopes },
    },
  ];
}

interface Run {
  readonly tool: string;
  /** What runs is bounded by a real sandbox. */
  readonly sandboxed: boolean;
}

/** Judges a shell command: every simple command, redirect and assignment in it. */
export function judgeBash(call: Call, set: PolicySet, facts: Facts, run: Run): Finding[] {
  const { tool, sandboxed } = run;
  const allows = tableAllows('execute', set, facts, sandboxed);
  const command = call.args.command;
  if (typeof command !== 'string') return [unreadable('the command is missing')];
  const out: Finding[] = [];
  const odd = findSuspicious(command);
  if (odd !== undefined) out.push(unreadable(`suspicious character ${odd} in the command`));
  if (command.length > 262144)
    return [...out, unreadable('the command is over 64 KiB'), ...judgePrefix(command, set, tool)];
  if (isForkBomb(command))
    out.push({ effect: 'deny', kind: 'rule', text: 'the command is a root-destroying form: fork bomb' });
  const walk: Walk = { simples: [], problems: [], depth: 0 };
  walkText(
    command.replaceAll('\uffff', '?').replaceAll('\r', '\n'),
    { vars: new Map(), functions: new Map(), home: facts.home, cwd: facts.cwd },
    walk,
    'full',
  );
  for (const p of walk.problems) out.push(unreadable(p));
  if (walk.simples.length === 0) out.push(unreadable('the command holds nothing that runs'));
  const judge: Judge = {
    set,
    facts,
    tool,
    commands: set.index.commands(tool),
    writes: set.index.paths('write', facts),
    reads: set.index.paths('read', facts),
    deletes: set.index.paths('delete', facts),
    sandboxed,
    tableAllows: allows,
  };
  out.push(...fetchedFindings(walk.simples, judge));
  for (const { rule } of judge.commands.tight.bare)
    out.push({
      effect: rule.effect === 'deny' ? 'deny' : 'ask',
      kind: 'rule',
      rule,
      text: `the call matches the ${rule.label}`,
    });
  for (const simple of walk.simples) {
    const at = simple.at === undefined ? {} : { at: simple.at };
    for (const finding of simpleFindings(simple, judge)) out.push({ ...finding, ...at });
  }
  if (allows) return out;
  for (const name of Object.keys(call.env ?? {}))
    if (!isHarmlessName(name, set))
      out.push({
        effect: 'ask',
        kind: 'table',
        text: `environment name \`${show(name)}\` is covered by no allow rule`,
        grant: { tool, action: 'execute', scopes: [] },
      });
  return out;
}

function judgePrefix(command: string, set: PolicySet, tool: string): Finding[] {
  const tight = set.index.commands(tool).tight.all.filter((r) => r.rule.effect === 'deny');
  const text = command.slice(0, 4096);
  return tight
    .filter(
      ({ pattern }) =>
        pattern === undefined || (pattern.literalPrefix !== '' && text.startsWith(pattern.literalPrefix)),
    )
    .map(({ rule }) => ({ effect: 'deny', kind: 'rule', rule, text: `the command starts as the ${rule.label} names` }));
}
