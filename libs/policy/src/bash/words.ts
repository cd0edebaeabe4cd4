import type { SyntaxNode, Word, WordPart } from 'unbash';

/** Stands for a piece of a word that only the running shell knows. It cannot occur in accepted input. */
export const UNKNOWN = '\uffff';

/** Where a file made by `mktemp` lies; its exact name is not known. */
const TEMPORARY = '/tmp/tmp.unresolved-mktemp';
const MKTEMP = /^(\$\(|`)[ \t]*mktemp([ \t]+-d)?[ \t]*[)`]$/;

const isUnresolved = (text: string): boolean => text.includes(UNKNOWN) || text.includes(TEMPORARY);

/** A word as the shell will see it, as far as that can be told without running it. */
export interface Resolved {
  readonly text: string;
  readonly unresolved: boolean;
  /** Holds an unquoted glob or brace. */
  readonly glob: boolean;
  /** Holds a quoted glob character or a blank: data rather than a path. */
  readonly data: boolean;
  readonly source: string;
}

export interface Scope {
  readonly vars: Map<string, string>;
  /** Bodies of the functions defined so far. */
  readonly functions: Map<string, SyntaxNode>;
  readonly home: string;
  cwd: string | undefined;
}

/** A word known completely. */
export const literal = (text: string): Resolved => ({
  text,
  unresolved: isUnresolved(text),
  glob: false,
  data: /\s/.test(text),
  source: text,
});

interface Piece {
  text: string;
  glob: boolean;
  data: boolean;
}

function lookup(name: string, scope: Scope): string {
  // Other separators cut words where they are not looked for.
  if (scope.vars.has('IFS')) return UNKNOWN;
  const own = scope.vars.get(name);
  if (own !== undefined) return own;
  if (name === 'HOME') return scope.home;
  if (name === 'PWD') return scope.cwd ?? UNKNOWN;
  return name === 'TMPDIR' ? '/tmp' : UNKNOWN;
}

const quoted = (text: string): Piece => ({ text, glob: false, data: /[\s*?[]/.test(text.replaceAll(UNKNOWN, '')) });

type Parameter = Extract<WordPart, { type: 'ParameterExpansion' }>;

function parameter(part: Parameter, scope: Scope): string {
  if (part.prefix !== undefined || part.index !== undefined) return UNKNOWN;
  const value = lookup(part.parameter, scope);
  const operation = part.operation;
  if (operation === undefined) return value;
  // A value that is known and not empty makes these expand to itself.
  const itself = operation.type === 'Default' && !operation.operator.endsWith('+');
  return itself && value !== '' && !value.includes(UNKNOWN) ? value : UNKNOWN;
}

function resolvePart(part: WordPart, scope: Scope): Piece {
  switch (part.type) {
    case 'Literal':
      return { text: part.value, glob: false, data: /[\s*?[]/.test(part.value) };
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return quoted(part.value);
    case 'DoubleQuoted':
    case 'LocaleString':
      return quoted(part.parts.map((p) => resolvePart(p, scope).text).join(''));
    case 'SimpleExpansion':
      return { text: lookup(part.text.slice(1), scope), glob: false, data: false };
    case 'ParameterExpansion': {
      return { text: parameter(part, scope), glob: false, data: false };
    }
    case 'CommandExpansion':
      return { text: MKTEMP.test(part.text) ? TEMPORARY : UNKNOWN, glob: false, data: false };
    case 'ProcessSubstitution':
      return { text: `/dev/fd/${UNKNOWN}`, glob: false, data: false };
    case 'Glob':
      return { text: part.text, glob: true, data: false };
    case 'ExtendedGlob':
    case 'BraceExpansion':
      return { text: UNKNOWN, glob: true, data: false };
    default:
      return { text: UNKNOWN, glob: false, data: false };
  }
}

/** Removes quotes and escapes and fills in what is known. */
export function resolveWord(word: Word, scope: Scope): Resolved {
  const parts = word.parts;
  const source = word.text.slice(0, 200);
  if (parts === undefined) {
    const bare = tilde(word.value, word.text, scope);
    const globbed = word.text !== '[' && /(^|[^\\])[*?[]/.test(word.text) && !/['"]/.test(word.text);
    return {
      text: bare,
      unresolved: isUnresolved(bare),
      glob: globbed,
      data: !globbed && /[\s*?[]/.test(bare),
      source,
    };
  }
  const pieces = parts.map((p) => resolvePart(p, scope));
  const text = tilde(pieces.map((p) => p.text).join(''), word.text, scope);
  return {
    text,
    unresolved: isUnresolved(text),
    glob: pieces.some((p) => p.glob),
    data: pieces.some((p) => p.data),
    source,
  };
}

/** Replaces a leading tilde that the shell would expand. */
export function tilde(text: string, source: string, scope: Scope): string {
  if (!source.startsWith('~') || !text.startsWith('~')) return text;
  const rest = text.slice(1);
  if (rest === '' || rest.startsWith('/')) return lookup('HOME', scope) + rest;
  if (rest === '+' || rest.startsWith('+/')) return lookup('PWD', scope) + rest.slice(1);
  const user = rest.split('/')[0] ?? '';
  if (user !== '' && scope.home.endsWith(`/${user}`)) return scope.home + rest.slice(user.length);
  return `${UNKNOWN}${rest.includes('/') ? rest.slice(rest.indexOf('/')) : ''}`;
}
