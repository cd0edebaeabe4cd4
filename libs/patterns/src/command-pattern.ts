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

function run(tokens: readonly Token[], text: string, confine: boolean): boolean {
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
      else if (t.kind === 'any' || !confine || !/\s/.test(c ?? '')) next[j] = 1;
      else continue;
      alive = true;
    }
    if (!alive) return false;
    close(next);
    state = next;
  }
  return state[n] === 1;
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
  return {
    source,
    hasStar,
    hasWildcard: firstWild !== -1,
    literalPrefix: literalOf(firstWild === -1 ? tokens : tokens.slice(0, firstWild)),
    firstWord: source.split(' ')[0] ?? '',
    matchesStrict: (text) =>
      run(tokens, text, false) ||
      (bare !== undefined && run(bare, text, false)) ||
      (extended !== undefined && run(extended, text, false)),
    matchesAllow: (text) =>
      !(confined && text.split(/[\s/:=]/).includes('..')) &&
      (run(tokens, text, true) || (bare !== undefined && run(bare, text, true))),
  };
}
