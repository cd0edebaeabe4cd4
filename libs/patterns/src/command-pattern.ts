type Token = { readonly kind: 'char'; readonly char: string } | { readonly kind: 'any' | 'one' | 'confined' };

/** A compiled command pattern; matching time is bounded by pattern length times text length. */
export interface CommandPattern {
  readonly source: string;
  readonly hasStar: boolean;
  readonly hasWildcard: boolean;
  readonly literalPrefix: string;
  readonly firstWord: string;
  matchesStrict(text: string): boolean;
  matchesAllow(text: string): boolean;
}

const CONFINING = /[/:=]/;

function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  let word = '';
  let wordStart = 0;
  const closeWord = (): void => {
    if (CONFINING.test(word))
      for (let i = wordStart; i < tokens.length; i++) if (tokens[i]?.kind === 'any') tokens[i] = { kind: 'confined' };
    word = '';
    wordStart = tokens.length + 1;
  };
  for (let i = 0; i < source.length; i++) {
    const c = source[i] ?? '';
    const next = source[i + 1];
    if (c === ' ') {
      closeWord();
      tokens.push({ kind: 'char', char: ' ' });
      continue;
    }
    word += c;
    if (c === '\\' && (next === '*' || next === '?' || next === '\\')) {
      tokens.push({ kind: 'char', char: next });
      i++;
    } else if (c === '*') {
      if (tokens.at(-1)?.kind !== 'any') tokens.push({ kind: 'any' });
    } else tokens.push(c === '?' ? { kind: 'one' } : { kind: 'char', char: c });
  }
  closeWord();
  return tokens;
}

/** Matches with every place at once, so that a confined star ends at a blank. */
function run(tokens: readonly Token[], text: string): boolean {
  const n = tokens.length;
  let state = new Uint8Array(n + 1);
  const close = (s: Uint8Array): void => {
    for (let j = 0; j < n; j++) if (s[j] && (tokens[j]?.kind === 'any' || tokens[j]?.kind === 'confined')) s[j + 1] = 1;
  };
  state[0] = 1;
  close(state);
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    const next = new Uint8Array(n + 1);
    let alive = false;
    for (let j = 0; j < n; j++) {
      if (!state[j]) continue;
      const t = tokens[j];
      if (t === undefined) continue;
      if (t.kind === 'char') {
        if (t.char === c) next[j + 1] = 1;
        else continue;
      } else if (t.kind === 'one') next[j + 1] = 1;
      else if (t.kind === 'any' || !/\s/.test(c ?? '')) next[j] = 1;
      else continue;
      alive = true;
    }
    if (!alive) return false;
    close(next);
    state = next;
  }
  return state[n] === 1;
}

type Piece = readonly (string | undefined)[];

/** The runs between the stars, characters with `undefined` for `?`. */
function piecesOf(tokens: readonly Token[]): Piece[] {
  const pieces: (string | undefined)[][] = [[]];
  for (const t of tokens)
    if (t.kind === 'any' || t.kind === 'confined') pieces.push([]);
    else pieces.at(-1)?.push(t.kind === 'char' ? t.char : undefined);
  return pieces;
}

const standsAt = (piece: Piece, text: string, at: number): boolean => {
  for (let i = 0; i < piece.length; i++) if (piece[i] !== undefined && piece[i] !== text[at + i]) return false;
  return at + piece.length <= text.length;
};

/** A matcher for stars that span anything: each piece is taken where it first stands, which cannot miss a match. */
function greedy(tokens: readonly Token[]): (text: string) => boolean {
  const [head = [], ...rest] = piecesOf(tokens);
  const tail = rest.pop();
  const plain = rest.map((piece) => (piece.includes(undefined) ? undefined : piece.join('')));
  return (text) => {
    if (!standsAt(head, text, 0)) return false;
    if (tail === undefined) return text.length === head.length;
    let at = head.length;
    const end = text.length - tail.length;
    for (const [i, piece] of rest.entries()) {
      const literal = plain[i];
      if (literal !== undefined) at = text.indexOf(literal, at);
      else while (at <= end && !standsAt(piece, text, at)) at++;
      if (at === -1 || at > end) return false;
      at += piece.length;
    }
    return at <= end && standsAt(tail, text, end);
  };
}

/** Compiles a command pattern: `*` spans anything, `?` one character, backslash makes them literal. */
export function compileCommandPattern(source: string): CommandPattern {
  const tokens = tokenize(source);
  const firstWild = tokens.findIndex((t) => t.kind !== 'char');
  const literalOf = (list: readonly Token[]): string => list.map((t) => (t.kind === 'char' ? t.char : '')).join('');
  const hasStar = tokens.some((t) => t.kind === 'any' || t.kind === 'confined');
  const last = tokens.at(-1);
  const tail = tokens.at(-2);
  const bare =
    last !== undefined && last.kind !== 'char' && last.kind !== 'one' && tail?.kind === 'char' && tail.char === ' '
      ? tokens.slice(0, -2)
      : undefined;
  const extended: Token[] | undefined = hasStar ? undefined : [...tokens, { kind: 'char', char: ' ' }, { kind: 'any' }];
  const confined = tokens.some((t) => t.kind === 'confined');
  const strict = [tokens, bare, extended].flatMap((list) => (list === undefined ? [] : [greedy(list)]));
  const free = [tokens, bare].flatMap((list) => (list === undefined ? [] : [greedy(list)]));
  return {
    source,
    hasStar,
    hasWildcard: firstWild !== -1,
    literalPrefix: literalOf(firstWild === -1 ? tokens : tokens.slice(0, firstWild)),
    firstWord: source.split(' ')[0] ?? '',
    matchesStrict: (text) => strict.some((matches) => matches(text)),
    matchesAllow: confined
      ? (text) =>
          free.some((matches) => matches(text)) &&
          !text.split(/[\s/:=]/).includes('..') &&
          (run(tokens, text) || (bare !== undefined && run(bare, text)))
      : (text) => free.some((matches) => matches(text)),
  };
}
