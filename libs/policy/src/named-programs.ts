import { normalisePath } from '@countersign/patterns';
import { type Simple, type Walk, walkText } from './bash/walk.ts';
import { UNKNOWN } from './bash/words.ts';
import { baseName } from './bash/wrappers.ts';

/** What a command line starts, as far as its text tells. */
export interface NamedPrograms {
  /** Bare names that are looked up in the search path. */
  readonly programs: readonly string[];
  /** Absolute paths of programs and of scripts that interpreters are given. */
  readonly files: readonly string[];
}

const MAX_NAMED = 32;
const INTERPRETER = /^(sh|bash|dash|zsh|ksh|python[\d.]*|node|nodejs|deno|bun|perl|ruby|php|lua|tsx|source|\.)$/;

const isKnown = (text: string): boolean => text !== '' && !/[\uffff*?[\]\n]/.test(text);

const SHELL = /^(sh|bash|dash|zsh|ksh)$/;
/** Options by which an interpreter is given the program text itself. */
const SHELL_TEXT = /^-[a-z]*c[a-z]*$/;
const PROGRAM_TEXT = /^-(c|e|m|p|r|-eval|-print)$/;

/** The first operand of an interpreter, which is its script unless an option gave it the program text. */
function scriptOf(interpreter: string, words: readonly string[]): string | undefined {
  const givesText = SHELL.test(interpreter) ? SHELL_TEXT : PROGRAM_TEXT;
  for (const [index, text] of words.entries()) {
    if (givesText.test(text)) return undefined;
    if (text === '--') return words[index + 1];
    if (!text.startsWith('-')) return text;
  }
  return undefined;
}

function namedBy({ words, cwd }: Simple, home: string): { programs: string[]; files: string[] } {
  const [program = '', ...operands] = words.map(({ text }) => text);
  const programs: string[] = [];
  const files: string[] = [];
  const addFile = (text: string | undefined): void => {
    if (text !== undefined && isKnown(text) && cwd !== undefined) files.push(normalisePath(text, cwd, home));
  };
  if (program.includes('/')) addFile(program);
  else if (isKnown(program)) programs.push(program);
  const name = baseName(program);
  if (INTERPRETER.test(name)) addFile(scriptOf(name, operands));
  return { programs, files };
}

/** The programs and scripts that a command names. What only turns out while it runs is not among them. */
export function namedPrograms(command: string, where: { readonly cwd: string; readonly home: string }): NamedPrograms {
  const walk: Walk = { simples: [], problems: [], depth: 0 };
  try {
    const text = command.replaceAll(UNKNOWN, '?').replaceAll('\r', '\n');
    walkText(text, { vars: new Map(), functions: new Map(), ...where }, walk, 'full');
  } catch {
    return { programs: [], files: [] };
  }
  const named = walk.simples.map((simple) => namedBy(simple, where.home));
  const distinct = (all: readonly string[]): string[] => [...new Set(all)].slice(0, MAX_NAMED);
  return {
    programs: distinct(named.flatMap(({ programs }) => programs)),
    files: distinct(named.flatMap(({ files }) => files)),
  };
}
