import { type Resolved, UNKNOWN } from './words.ts';

/** What reaches a command on its standard input from the stages before it. */
export interface Piped {
  /** The text, or UNKNOWN. */
  readonly text: string;
  /** Names of all programs before it. */
  readonly programs: readonly string[];
  /** The words of a find right before it, which prints what it finds. */
  readonly found?: readonly Resolved[];
}

const join = (words: readonly Resolved[]): string => words.map((x) => x.text).join(' ');

const NAMED: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\n', '\\': '\\', "'": "'", '"': '"' };

/** What `printf` and `echo -e` make of a text; UNKNOWN for escapes that are not read here. */
function escapes(text: string): string {
  return text.replace(/\\(x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|.?)/gs, (_all, given: string) => {
    if (/^x./.test(given)) return String.fromCharCode(Number.parseInt(given.slice(1), 16));
    if (/^[0-7]/.test(given)) return String.fromCharCode(Number.parseInt(given, 8) % 256);
    return NAMED[given] ?? UNKNOWN;
  });
}

function printed(words: readonly Resolved[]): string {
  const format = words[1]?.text ?? '';
  if (!format.includes('%')) return escapes(format);
  if (/%(?![s%])/.test(format)) return UNKNOWN;
  const holes = format.split('%s').length - 1;
  const values = words.slice(2).map((x) => x.text);
  const rounds = holes === 0 ? 1 : Math.max(1, Math.ceil(values.length / holes));
  let next = 0;
  let out = '';
  for (let round = 0; round < rounds; round++) out += format.replaceAll('%s', () => values[next++] ?? '');
  return escapes(out.replaceAll('%%', '%'));
}

function echoed(words: readonly Resolved[]): string {
  let at = 1;
  let live = false;
  while (/^-[neE]+$/.test(words[at]?.text ?? '')) {
    if (words[at]?.text.includes('e')) live = true;
    at++;
  }
  const text = join(words.slice(at));
  return live ? escapes(text) : text;
}

/** What a stage of a pipeline prints, as far as its words and input tell. */
export function outputOf(words: readonly Resolved[], input: string | undefined, piped: Piped | undefined): Piped {
  const first = words[0]?.text ?? '';
  const name = first.slice(first.lastIndexOf('/') + 1);
  const programs = [...(piped?.programs ?? []), name];
  const received = input ?? piped?.text ?? UNKNOWN;
  const files = words.slice(1).filter((x) => x.text !== '-' && !/^-[A-Za-z]+$/.test(x.text));
  switch (name) {
    case 'echo':
      return { text: echoed(words), programs };
    case 'printf':
      return { text: printed(words), programs };
    case 'cat':
      return { text: files.length === 0 ? received : UNKNOWN, programs };
    case 'tee':
      return { text: received, programs };
    case 'find':
      return { text: UNKNOWN, programs, found: words };
    default:
      return { text: UNKNOWN, programs };
  }
}
