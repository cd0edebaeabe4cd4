import { normalisePath } from '@countersign/patterns';
import { writeTargets } from '../bash/programs.ts';
import type { Simple } from '../bash/walk.ts';
import type { Resolved } from '../bash/words.ts';
import { baseName, SHELLS } from '../bash/wrappers.ts';

const FETCHERS = /^(curl|wget|aria2c|fetch|scp|rsync|ftp|sftp)$/;
const RUNNERS = /^(source|\.|python[\d.]*|node|nodejs|deno|bun|perl|ruby|php|lua)$/;

const fetches = (simple: Simple): boolean => FETCHERS.test(baseName(simple.words[0]?.text ?? ''));

/** Files that a command fills from the network: its outputs, its redirects, and the last part of an address. */
function fetchedBy(simple: Simple): Resolved[] {
  const through = simple.piped?.programs.some((name) => FETCHERS.test(name)) === true;
  if (!fetches(simple) && !through) return [];
  const redirected = simple.redirects.filter((r) => r.op.includes('>')).map((r) => r.target);
  const addresses = fetches(simple) ? simple.words.slice(1).filter((x) => /:\/\/|^[\w.-]+\.\w+\//.test(x.text)) : [];
  const named = addresses.map((x) => ({ ...x, text: baseName(x.text.replace(/[?#].*$/s, '')) }));
  return [...writeTargets(simple), ...redirected, ...named].filter((x) => x.text !== '' && !x.unresolved);
}

/** The file that a command runs, if it is told as a word. */
function fileRun(simple: Simple): Resolved | undefined {
  const first = simple.words[0];
  if (first === undefined) return undefined;
  if (first.text.includes('/') && !SHELLS.has(baseName(first.text))) return first;
  if (!SHELLS.has(first.text) && !RUNNERS.test(baseName(first.text))) return undefined;
  return (
    simple.words.slice(1).find((x) => !x.text.startsWith('-')) ?? simple.redirects.find((r) => r.op === '<')?.target
  );
}

/** The commands that run a file which an earlier command of the same text fetched. */
export function runsFetchedFile(simples: readonly Simple[], home: string): Simple[] {
  const fetched = new Set<string>();
  return simples.filter((simple) => {
    const place = (word: Resolved): string => normalisePath(word.text, simple.cwd ?? '/', home);
    const file = fetched.size === 0 ? undefined : fileRun(simple);
    for (const word of fetchedBy(simple)) fetched.add(place(word));
    return file !== undefined && fetched.has(place(file));
  });
}
