import type { Simple } from './walk.ts';
import { baseName, SHELLS } from './wrappers.ts';

interface Inline {
  readonly programs: RegExp;
  /** Options whose value is program text; attached values too. */
  readonly option?: RegExp;
  /** Program text comes from standard input when no file is named. */
  readonly input?: boolean;
  /** Every word is program text. */
  readonly words?: boolean;
}

const KINDS: readonly Inline[] = [
  { programs: /^python[\d.]*$/, option: /^-[a-zA-Z]*c(.*)$/s, input: true },
  { programs: /^(node|nodejs|bun|tsx)$/, option: /^(?:-[a-zA-Z]*[ep]|--eval|--print)(?:=(.*))?$/s, input: true },
  { programs: /^deno$/, words: true },
  { programs: /^(perl|ruby|lua)$/, option: /^-[a-zA-Z0-9]*[eE](.*)$/s, input: true },
  { programs: /^php$/, option: /^-[rBRE](.*)$/s, input: true },
  { programs: /^osascript$/, option: /^-e(.*)$/s, input: true },
  { programs: /^(expect|tclsh)$/, option: /^-c(.*)$/s, input: true },
  { programs: /^(psql|mysql|mariadb|sqlite3|duckdb)$/, words: true, input: true },
  { programs: /^(crontab|ed|ex|gdb|ftp|sftp|bc|dc)$/, input: true },
  { programs: /^socat$/, words: true },
  { programs: /^make$/, option: /^--eval(?:=(.*))?$/s, input: true },
];

/** Text in other languages than the shell's that a command will run: values of options, words, standard input. */
export function inlineCode({ words, input, piped }: Simple): string[] {
  const name = baseName(words[0]?.text ?? '');
  if (SHELLS.has(name)) return [];
  const kind = KINDS.find(({ programs }) => programs.test(name));
  if (kind === undefined) return [];
  const rest = words.slice(1).map((x) => x.text);
  const out = kind.words === true ? [...rest] : [];
  rest.forEach((text, i) => {
    const m = kind.option?.exec(text);
    if (m) out.push(m[1] ?? '', rest[i + 1] ?? '');
  });
  const given = input ?? piped?.text;
  if (kind.input === true && given !== undefined) out.push(given);
  return out.filter((text) => text !== '');
}
