import {
  type CommandPattern,
  compileCommandPattern,
  compileHostPattern,
  compilePathGlob,
  type HostPattern,
  type HostTarget,
  type PathBase,
  type PathGlob,
  PathIndex,
  PrefixIndex,
} from '@countersign/patterns';
import { ruleCoversTool } from './tools.ts';
import type { Facts, Rule } from './types.ts';

export interface CommandRule {
  readonly rule: Rule;
  readonly pattern: CommandPattern | undefined;
}

export interface PathRule {
  readonly rule: Rule;
  readonly glob: PathGlob | undefined;
}

export interface HostRule {
  readonly rule: Rule;
  readonly pattern: HostPattern | undefined;
}

/** The command rules of one effect, found by the words that a command begins with. */
class CommandList {
  readonly all: readonly CommandRule[];
  /** Rules without a pattern. */
  readonly bare: readonly CommandRule[];
  readonly #index = new PrefixIndex<CommandRule>();
  constructor(rules: readonly CommandRule[]) {
    this.all = rules;
    this.bare = rules.filter((r) => r.pattern === undefined);
    for (const r of rules)
      if (r.pattern !== undefined) this.#index.add(r.pattern.literalPrefix, r.pattern.hasWildcard, r);
  }
  /** Rules whose pattern could match one of the texts. */
  near(texts: readonly string[]): Iterable<CommandRule> {
    const [only, ...more] = texts.map((text) => this.#index.along(text));
    return more.length === 0 ? (only ?? []) : new Set([only ?? [], ...more].flat());
  }
  /** Rules whose pattern could match a text that goes on in an unknown way. */
  around(text: string): CommandRule[] {
    return this.#index.around(text);
  }
}

export interface CommandRules {
  readonly tight: CommandList;
  readonly allow: CommandList;
}

/** The path rules of one tool. */
export class PathRules {
  readonly tight: readonly PathRule[];
  readonly allow: readonly PathRule[];
  readonly #tight = new PathIndex<PathRule>();
  readonly #allow = new PathIndex<PathRule>();
  constructor(rules: readonly PathRule[]) {
    this.tight = rules.filter((r) => r.rule.effect !== 'allow');
    this.allow = rules.filter((r) => r.rule.effect === 'allow');
    for (const r of this.tight) this.#tight.add(r.glob, r);
    for (const r of this.allow) this.#allow.add(r.glob, r);
  }
  /** Deny and ask rules that could match one of the two spellings. */
  near(path: string, real: string): Iterable<PathRule> {
    return path === real ? this.#tight.of(path) : new Set([...this.#tight.of(path), ...this.#tight.of(real)]);
  }
  allowsNear(path: string): PathRule[] {
    return this.#allow.of(path);
  }
}

const push = <T>(map: Map<string, T[]>, key: string, value: T): void => {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
};

/** Host patterns, found by the host or one of its parents. */
export class HostIndex<T> {
  readonly #exact = new Map<string, T[]>();
  readonly #parents = new Map<string, T[]>();
  readonly #every: T[] = [];
  add(pattern: HostPattern | undefined, value: T): void {
    if (pattern?.host === undefined) this.#every.push(value);
    else push(pattern.wild ? this.#parents : this.#exact, pattern.host, value);
  }
  of(host: string): T[] {
    const out = [...this.#every, ...(this.#exact.get(host) ?? [])];
    if (this.#parents.size > 0)
      for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1))
        out.push(...(this.#parents.get(host.slice(dot + 1)) ?? []));
    return out;
  }
}

/** A list of hosts, as `allowedHosts`. */
export class HostList {
  readonly #index = new HostIndex<HostPattern>();
  constructor(patterns: readonly string[]) {
    for (const source of patterns) {
      const pattern = compileHostPattern(source);
      if (pattern?.host !== undefined) this.#index.add(pattern, pattern);
    }
  }
  holds(target: HostTarget, everyPort: boolean): boolean {
    return this.#index.of(target.host).some((pattern) => pattern.matches(target, everyPort));
  }
}

const PLACES = 64;

/**
 * The rules of a set, compiled when they are first needed and kept. INVARIANT: what is kept depends on the rules alone, so
 * that a decision is the same whatever was decided before.
 */
export class RuleIndex {
  readonly #rules: readonly Rule[];
  readonly #commands = new Map<string, CommandRules>();
  readonly #paths = new Map<string, PathRules>();
  readonly #hosts = new Map<string, HostIndex<HostRule>>();
  readonly #ofTool = new Map<string, readonly Rule[]>();
  readonly allowed: HostList;
  readonly forbidden: HostList;
  /** Path patterns for the sandbox, by tool: of deny rules, and of deny and ask rules. */
  readonly #obliged = new Map<string, readonly string[]>();

  constructor(rules: readonly Rule[], allowedHosts: readonly string[], forbiddenHosts: readonly string[]) {
    this.#rules = rules;
    this.allowed = new HostList(allowedHosts);
    this.forbidden = new HostList(forbiddenHosts);
    for (const tool of ['read', 'write'] as const) {
      // A rule on every tool without a pattern speaks about calls, not about places.
      const tight = rules.filter(
        (r) => r.effect !== 'allow' && ruleCoversTool(r, tool) && !(r.tool === '*' && r.pattern === undefined),
      );
      const patterns = (of: readonly Rule[]): string[] => [...new Set(of.map((r) => r.pattern ?? '**'))].sort();
      this.#obliged.set(`${tool} deny`, patterns(tight.filter((r) => r.effect === 'deny')));
      this.#obliged.set(`${tool} any`, patterns(tight));
    }
  }

  /** What the sandbox must keep a call from reading or writing. */
  obliged(tool: 'read' | 'write', effects: 'deny' | 'any'): readonly string[] {
    return this.#obliged.get(`${tool} ${effects}`) ?? [];
  }

  /** The rules that speak about a tool. */
  rulesOf(tool: string): readonly Rule[] {
    let found = this.#ofTool.get(tool);
    if (found === undefined) {
      found = this.#rules.filter((rule) => ruleCoversTool(rule, tool));
      if (this.#ofTool.size < PLACES) this.#ofTool.set(tool, found);
    }
    return found;
  }

  commands(tool: string): CommandRules {
    let found = this.#commands.get(tool);
    if (found === undefined) {
      const compiled = this.rulesOf(tool).map((rule) => ({
        rule,
        pattern: rule.pattern === undefined ? undefined : compileCommandPattern(rule.pattern),
      }));
      found = {
        tight: new CommandList(compiled.filter((r) => r.rule.effect !== 'allow')),
        allow: new CommandList(compiled.filter((r) => r.rule.effect === 'allow')),
      };
      this.#commands.set(tool, found);
    }
    return found;
  }

  /** Path rules of a tool, anchored at the session's folders. */
  paths(tool: string, facts: Facts): PathRules {
    const base: PathBase = facts;
    const key = [tool, base.project, base.home, base.platform].join('\0');
    let found = this.#paths.get(key);
    if (found === undefined) {
      const compiled = this.rulesOf(tool).map((rule) => ({
        rule,
        glob: rule.pattern === undefined ? undefined : compilePathGlob(rule.pattern, base),
      }));
      found = new PathRules(compiled);
      const oldest = this.#paths.keys().next().value;
      if (this.#paths.size >= PLACES && oldest !== undefined) this.#paths.delete(oldest);
      this.#paths.set(key, found);
    }
    return found;
  }

  hosts(tool: string): HostIndex<HostRule> {
    let found = this.#hosts.get(tool);
    if (found === undefined) {
      found = new HostIndex<HostRule>();
      for (const rule of this.rulesOf(tool)) {
        const pattern = rule.pattern === undefined ? undefined : compileHostPattern(rule.pattern);
        if (rule.pattern === undefined || pattern !== undefined) found.add(pattern, { rule, pattern });
      }
      this.#hosts.set(tool, found);
    }
    return found;
  }
}
