import { err, ok, type Result } from '@countersign/kernel';

/** What a rule speaks about. */
export type SbplFilter =
  | { readonly kind: 'subpath' | 'literal'; readonly path: string }
  | { readonly kind: 'remote' | 'local'; readonly protocol: 'ip'; readonly address: string }
  | { readonly kind: 'remote'; readonly protocol: 'unix-socket' }
  | { readonly kind: 'global-name'; readonly name: string }
  | { readonly kind: 'same-sandbox' };

export type SbplRule = {
  readonly action: 'allow' | 'deny';
  readonly operation: string;
  /** Any of them makes the rule apply; none means every use of the operation. */
  readonly filters: readonly SbplFilter[];
};

type Form = string | { readonly text: string } | readonly Form[];

const OPERATIONS = new Set([
  ...['default', 'process-fork', 'process-exec*', 'process-info*', 'signal', 'sysctl-read', 'mach-lookup'],
  ...['file-read*', 'file-read-data', 'file-read-metadata', 'file-write*', 'file-write-data', 'file-write-create'],
  ...['file-write-unlink', 'file-write-mode', 'network*', 'network-outbound', 'network-inbound', 'network-bind'],
]);
/** Operations that may be allowed without a filter: they reach nothing outside. */
const HARMLESS = new Set(['process-fork', 'sysctl-read']);
const MAX_CHARS = 1_000_000;
const MAX_DEPTH = 8;

class SbplProblem extends Error {}

const fail = (message: string): never => {
  throw new SbplProblem(message);
};

const ESCAPES: Readonly<Record<string, string>> = { '"': '"', '\\': '\\', n: '\n', r: '\r', t: '\t' };

function readString(text: string, from: number): { value: string; end: number } {
  let value = '';
  for (let at = from + 1; at < text.length; at += 1) {
    const character = text[at] as string;
    if (character === '"') return { value, end: at + 1 };
    if (character !== '\\') {
      value += character;
      continue;
    }
    at += 1;
    const next = text[at] ?? '';
    const code = next === 'x' ? /^[0-9a-f]{2}/.exec(text.slice(at + 1))?.[0] : undefined;
    if (code !== undefined) at += 2;
    const plain = code === undefined ? ESCAPES[next] : String.fromCharCode(Number.parseInt(code, 16));
    value += plain ?? fail(`unknown escape \`\\${next}\``);
  }
  return fail('a string does not end');
}

function readForms(text: string): readonly Form[] {
  const open: Form[][] = [[]];
  for (let at = 0; at < text.length; ) {
    const character = text[at] as string;
    if (/\s/.test(character)) at += 1;
    else if (character === '(') {
      if (open.length > MAX_DEPTH) fail('forms are nested too deep');
      open.push([]);
      at += 1;
    } else if (character === ')') {
      const done = open.pop() ?? [];
      (open.at(-1) ?? fail('a parenthesis closes nothing')).push(done);
      at += 1;
    } else if (character === '"') {
      const { value, end } = readString(text, at);
      open.at(-1)?.push({ text: value });
      at = end;
    } else {
      const word = /^[A-Za-z0-9*_.-]+/.exec(text.slice(at))?.[0] ?? fail(`unexpected \`${character}\``);
      open.at(-1)?.push(word);
      at += word.length;
    }
  }
  return open.length === 1 ? (open[0] as Form[]) : fail('a parenthesis is not closed');
}

const textOf = (form: Form | undefined): string =>
  typeof form === 'object' && 'text' in form ? form.text : fail('a string is missing');

function filterOf(form: Form): SbplFilter {
  if (!Array.isArray(form)) return fail('a filter is no list');
  const [kind, first, second] = form as readonly Form[];
  if (kind === 'subpath' || kind === 'literal') {
    const path = textOf(first);
    return path.startsWith('/') ? { kind, path } : fail(`\`${path}\` is not absolute`);
  }
  if (kind === 'global-name') return { kind, name: textOf(first) };
  if (kind === 'target' && first === 'same-sandbox') return { kind: 'same-sandbox' };
  if (kind === 'remote' && first === 'unix-socket') return { kind, protocol: 'unix-socket' };
  if ((kind === 'remote' || kind === 'local') && first === 'ip')
    return { kind, protocol: 'ip', address: textOf(second) };
  return fail(`unknown filter \`${String(kind)}\``);
}

function ruleOf(form: Form): SbplRule {
  if (!Array.isArray(form)) return fail('a rule is no list');
  const [action, operation, ...rest] = form as readonly Form[];
  if (action !== 'allow' && action !== 'deny') return fail(`unknown action \`${String(action)}\``);
  if (typeof operation !== 'string' || !OPERATIONS.has(operation))
    return fail(`unknown operation \`${String(operation)}\``);
  const filters = rest.map(filterOf);
  if (action === 'allow' && filters.length === 0 && !HARMLESS.has(operation))
    fail(`\`${operation}\` is allowed without a filter`);
  return { action, operation, filters };
}

/** Reads a profile. Refuses what it does not know, and a rule that allows everything. */
export function readSbpl(text: string): Result<readonly SbplRule[], string> {
  if (text.length > MAX_CHARS) return err('the profile is too long');
  try {
    const [version, base, ...rest] = readForms(text);
    if (JSON.stringify(version) !== '["version","1"]') fail('the first form is not `(version 1)`');
    if (JSON.stringify(base) !== '["deny","default"]') fail('the second form is not `(deny default)`');
    return ok(rest.map(ruleOf));
  } catch (error) {
    if (error instanceof SbplProblem) return err(error.message);
    throw error;
  }
}
