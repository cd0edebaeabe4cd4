import { sedWords } from './hazards.ts';
import { scanSedScript } from './sed-script.ts';
import { type Resolved, UNKNOWN } from './words.ts';

/** Options whose value a program hands to a shell, by program. */
const VALUES: Readonly<Record<string, RegExp>> = {
  tar: /^(-I|--to-command|--use-compress-program|--rsh-command|--rmt-command|--info-script|--new-volume-script)(?:=(.*))?$/s,
  rg: /^(--pre|--hostname-bin)(?:=(.*))?$/s,
  split: /^(--filter)(?:=(.*))?$/s,
  man: /^(-P|--pager|-H|--html)(?:=(.*))?$/s,
  sort: /^(--compress-program)(?:=(.*))?$/s,
  rsync: /^(-e|--rsh|--rsync-path)(?:=(.*))?$/s,
  zip: /^(-TT|--unzip-command)(?:=(.*))?$/s,
  tcpdump: /^(-z)(?:=(.*))?$/s,
  git: /^(-x|--exec|--extcmd|--upload-pack|--receive-pack|--[a-z]+-filter|--open-files-in-pager)(?:=(.*))?$/s,
  make: /^(SHELL)=(.*)$/s,
  nodemon: /^(-x|--exec)(?:=(.*))?$/s,
};

const SSH = /^(?:-o)?\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand)[\s=]+(.*)$/is;
const EDITOR = /^(?:\+|-c|--cmd)?[:!]*!(.*)$/s;

/** What a git alias or a setting that names a program runs. */
function gitSetting(key: string, value: string): string | undefined {
  if (/^alias\./i.test(key)) return value.startsWith('!') ? value.slice(1) : `git ${value}`;
  return GIT_RUNS.test(key) ? value.replace(/^!/, '') : undefined;
}
const GIT_RUNS =
  /pager|editor|command|textconv|\.clean$|\.smudge$|\.process$|\.driver$|\.cmd$|external|fsmonitor|askpass|helper|program|hookspath|gitproxy/i;

function gitScripts(rest: readonly string[]): string[] {
  const out: string[] = [];
  rest.forEach((text, i) => {
    const given = text === '-c' ? rest[i + 1] : /^-c(?=.)/.test(text) ? text.slice(2) : undefined;
    const m = /^([\w.-]+)=(.*)$/s.exec(given ?? '');
    const script = m?.[1] === undefined ? undefined : gitSetting(m[1], m[2] ?? '');
    if (script !== undefined) out.push(script);
    if (/^-O./.test(text)) out.push(text.slice(2));
    const fromVariable = text === '--config-env' ? rest[i + 1] : /^--config-env=(.*)$/s.exec(text)?.[1];
    if (fromVariable !== undefined && gitSetting(fromVariable.split('=')[0] ?? '', '!') !== undefined)
      out.push(UNKNOWN);
  });
  const at = rest.findIndex((x) => /^(submodule|bisect|config)$/.test(x));
  const behind = rest.slice(at + 1).filter((x) => !/^--(recursive|quiet|global|local|system|add|replace-all)$/.test(x));
  if (rest[at] === 'submodule' && behind[0] === 'foreach') out.push(behind.slice(1).join(' '));
  if (rest[at] === 'bisect' && behind[0] === 'run') out.push(behind.slice(1).join(' '));
  if (rest[at] === 'config') {
    const script = gitSetting(behind.at(-2) ?? '', behind.at(-1) ?? '');
    if (script !== undefined) out.push(script);
  }
  return out;
}

/** The commands that an awk program starts: literal ones as they stand, others unknown. */
function awkScripts(rest: readonly string[]): string[] {
  const out: string[] = [];
  for (const text of rest) {
    for (const m of text.matchAll(/system\s*\(\s*(?:"((?:[^"\\]|\\.)*)"\s*\))?/g)) out.push(m[1] ?? UNKNOWN);
    if (!/\|/.test(text)) continue;
    for (const m of text.matchAll(/\bprintf?\b[^|;}\n]*\|&?\s*(?:"((?:[^"\\]|\\.)*)")?/g)) out.push(m[1] ?? UNKNOWN);
    for (const m of text.matchAll(/(?:"((?:[^"\\]|\\.)*)"|[\w)])\s*\|&?\s*getline/g)) out.push(m[1] ?? UNKNOWN);
  }
  return out;
}

/** Texts that a program will hand to a shell because an option, a setting or its own script says so. */
export function borneScripts(name: string, words: readonly Resolved[]): string[] {
  const rest = words.slice(1).map((x) => x.text);
  if (/^(?:g|m|n)?awk$/.test(name)) return awkScripts(rest);
  if (/^g?sed$/.test(name)) return [...scanSedScript(sedWords(words).script).runs];
  if (/^(?:ssh|scp|sftp|mosh)$/.test(name)) return rest.flatMap((x) => SSH.exec(x)?.[1] ?? []);
  if (/^(?:vi|vim|nvim|view|ex|less)$/.test(name)) return rest.flatMap((x) => EDITOR.exec(x)?.[1] ?? []);
  if (name === 'socat') return rest.flatMap((x) => /^(?:EXEC|SYSTEM|SHELL):["']?([^,"']*)/i.exec(x)?.[1] ?? []);
  const option = Object.hasOwn(VALUES, name) ? VALUES[name] : undefined;
  const out = name === 'git' ? gitScripts(rest) : [];
  if (name === 'tar') for (const x of rest) out.push(...(/^--checkpoint-action=exec=(.*)$/s.exec(x)?.slice(1) ?? []));
  if (option === undefined) return out;
  rest.forEach((text, i) => {
    const m = option.exec(text);
    if (m !== null) out.push(m[2] ?? rest[i + 1] ?? UNKNOWN);
  });
  return out;
}

type Assign = { readonly name: string; readonly value: string };

const RUN_BY_OTHERS =
  /^(?:EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|GIT_EDITOR|GIT_SEQUENCE_EDITOR|GIT_PAGER|GIT_SSH_COMMAND|GIT_EXTERNAL_DIFF|GIT_ASKPASS|SSH_ASKPASS|SUDO_ASKPASS|LESSOPEN|LESSCLOSE|PROMPT_COMMAND|RIPGREP_CONFIG_PATH)$/;

/** Prompts are expanded each time the shell shows them, and `set -x` shows one before each command. */
const PROMPT = /^PS[0-4]$/;
const prompted = ({ name, value }: Assign): string[] =>
  PROMPT.test(name) && /\$\(|`/.test(value) ? [`: "${value}"`] : [];

/** Values of assignments that some program will hand to a shell. */
export const assignedScripts = (assigns: readonly Assign[]): string[] => [
  ...assigns.filter((a) => RUN_BY_OTHERS.test(a.name) && a.value.trim() !== '').map((a) => a.value.replace(/^\|/, '')),
  ...assigns.flatMap(prompted),
];
