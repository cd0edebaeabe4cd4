import { err, ok, type Result } from '@countersign/kernel';
import { type Document, isCollection, isNode, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { schemaProblems } from './check-schema.ts';
import { loadPolicySet } from './load.ts';
import type { LayerName, LayerSource, PolicyLoadError } from './types.ts';

/** One fault of a policy file. `line` counts from 1; `rule` is empty when the fault is in no rule. */
export interface PolicyFileProblem {
  readonly file: string;
  readonly line: number;
  readonly rule: string;
  readonly message: string;
  readonly suggestion: string;
}

export interface PolicyFile {
  readonly layer: LayerSource;
  /** The line on which each rule starts, by `denyRules[0]` or `lockedRules.denyRules[0]`. */
  readonly lines: ReadonlyMap<string, number>;
}

const MAX_CHARACTERS = 4 * 1024 * 1024;
type Path = readonly (string | number)[];

const dotted = (path: Path): string =>
  path.map((p, i) => (typeof p === 'number' ? `[${p}]` : i === 0 ? p : `.${p}`)).join('');

/** The rule that a path lies in, as `denyRules[0]`. */
function ruleOf(path: Path): string {
  const at = path.findIndex((p, i) => typeof p === 'number' && /Rules$/.test(String(path[i - 1])));
  return at === -1 ? '' : dotted(path.slice(0, at + 1));
}

const pathOf = (problem: PolicyLoadError): Path => {
  const inner = problem.layer.split('.').slice(1);
  const parts = problem.rule.split(/[.[\]]+/).filter((p) => p !== '');
  return [...inner, ...parts.map((p) => (/^\d+$/.test(p) ? Number(p) : p))];
};

function lineOf(parsed: Document, lines: LineCounter, path: Path): number {
  for (let length = path.length; length >= 0; length--) {
    const key = path.slice(0, length);
    const parent = length === 0 ? parsed.contents : parsed.getIn(path.slice(0, length - 1), true);
    const node: unknown = length === 0 ? parsed.contents : parsed.getIn(key, true);
    const pair =
      isCollection(parent) && typeof key.at(-1) === 'string'
        ? parent.items.find((item) => String((item as { key?: unknown }).key) === key.at(-1))
        : undefined;
    const at = (pair as { key?: Node } | undefined)?.key ?? (isNode(node) ? node : undefined);
    if (at?.range) return lines.linePos(at.range[0]).line;
  }
  return 1;
}

function ruleLines(parsed: Document, lines: LineCounter, layer: object, prefix: Path = []): [string, number][] {
  return Object.entries(layer).flatMap(([key, value]): [string, number][] => {
    const path = [...prefix, key];
    if (Array.isArray(value) && key.endsWith('Rules'))
      return value.map((_, i) => [dotted([...path, i]), lineOf(parsed, lines, [...path, i])]);
    return (key === 'lockedRules' || key === 'defaults') && value !== null
      ? ruleLines(parsed, lines, value as object, path)
      : [];
  });
}

function syntaxProblems(parsed: Document, text: string, json: boolean): { at: number; message: string }[] {
  const out = parsed.errors.map((e) => ({ at: e.pos[0], message: e.message.split('\n')[0] ?? 'cannot be read' }));
  if (out.length > 0) return out;
  visit(parsed, {
    Alias: (_, node) => void out.push({ at: node.range?.[0] ?? 0, message: 'an alias may not be used here' }),
    Pair: (_, pair) => {
      if (String(pair.key) === '<<') out.push({ at: 0, message: 'a merge key may not be used here' });
    },
  });
  if (!json) return out;
  try {
    JSON.parse(text);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : 'is not JSON';
    const at = /position (\d+)/.exec(message)?.[1];
    out.push({ at: at === undefined ? 0 : Number(at), message: message.slice(0, 200) });
  }
  return out;
}

/** What is made of the value of a file before it is checked. Paths of faults are those of the file, so keys keep their places. */
type Adapt = (value: unknown) => unknown;

function read(
  text: string,
  file: string,
  layerName: LayerName,
  adapt: Adapt,
): Result<PolicyFile, readonly PolicyFileProblem[]> {
  const fail = (line: number, message: string, suggestion: string) =>
    err([{ file, line, rule: '', message, suggestion }]);
  if (text.length > MAX_CHARACTERS) return fail(1, 'the file is over 4 MiB', 'split the policy over layers');
  const lines = new LineCounter();
  const parsed = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, version: '1.2' });
  const syntax = syntaxProblems(parsed, text, /\.json$/i.test(file));
  if (syntax.length > 0)
    return err(
      syntax.map(({ at, message }) => ({
        file,
        line: lines.linePos(at).line || 1,
        rule: '',
        message,
        suggestion: 'correct the syntax at this line',
      })),
    );
  const value = adapt(parsed.toJS());
  const place = (path: Path) => ({ file, line: lineOf(parsed, lines, path), rule: ruleOf(path) });
  const shape = schemaProblems(value ?? {});
  if (shape.length > 0)
    return err(
      shape.map(({ path, message, suggestion }) => ({
        ...place(path),
        message: path.length === 0 ? `the file ${message}` : `\`${dotted(path)}\`: ${message}`,
        suggestion,
      })),
    );
  const layer = (value ?? {}) as LayerSource;
  const loaded = loadPolicySet({ [layerName]: layer });
  if (!loaded.ok)
    return err(
      loaded.error.map((problem) => ({
        ...place(pathOf(problem)),
        message: problem.message,
        suggestion: problem.suggestion ?? 'correct or remove the rule',
      })),
    );
  return ok({ layer, lines: new Map(ruleLines(parsed, lines, layer)) });
}

/**
 * Reads a policy file. `file` is only a name: it is shown in problems, and one that ends in `.json` must be strict JSON,
 * anything else is YAML 1.2 without aliases. `adapt` makes a policy of another system's form. One bad rule refuses the whole file.
 */
export function parsePolicyFile(
  text: string,
  file: string,
  layerName: LayerName = 'managed',
  adapt: Adapt = (value) => value,
): Result<PolicyFile, readonly PolicyFileProblem[]> {
  try {
    return read(text, file, layerName, adapt);
  } catch {
    const message = 'the file cannot be read; it may be nested too deeply';
    return err([{ file, line: 1, rule: '', message, suggestion: 'write it flatter' }]);
  }
}

/** One line of text for a problem. */
export const showProblem = ({ file, line, rule, message, suggestion }: PolicyFileProblem): string =>
  `${file}:${line}: ${rule === '' ? '' : `${rule}: `}${message}; ${suggestion}`;
