import { isInside, normalisePath } from '@countersign/patterns';
import { findStarts } from '../bash/programs.ts';
import type { Simple } from '../bash/walk.ts';
import { literal, type Resolved, UNKNOWN } from '../bash/words.ts';
import { baseName } from '../bash/wrappers.ts';
import type { Facts } from '../types.ts';

/** Whether `rm` or a relative is asked to delete recursively. */
export function isRecursiveDelete(words: readonly Resolved[]): boolean {
  const name = baseName(words[0]?.text ?? '');
  return (
    name === 'rm' &&
    words.slice(1).some((x) => /^-[a-zA-Z]*[rR]/.test(x.text) || /^--r(e(c(u(r(s(i(v(e)?)?)?)?)?)?)?)?$/.test(x.text))
  );
}

/** The whole home of another account. */
const OTHER_HOME = /^~[A-Za-z_][\w.-]*\/*(\.?\*)?$/;
const PRESENT_FOLDER = /^"?(\$\(|`)[ \t]*pwd([ \t]+-[LP])?[ \t]*[)`]"?\/*$/;
/** `${name:-text}`: the text stands there when nothing is set. */
const DEFAULTED = /^"?\$\{\w+:?[-=]([^}]*)\}"?((?:\/\.?\*?)*)$/;

/** Whether a recursive delete would be one of the root if what is unresolved in front of a slash were empty. */
export const mayBeRoot = ({ words }: Simple): boolean =>
  isRecursiveDelete(words) && words.slice(1).some((x) => new RegExp(`^${UNKNOWN}+/+[.*?]*$`).test(x.text));

/** Whether deleting or opening up this word would destroy the host, the home or the whole project. */
function isRoot(word: Resolved, simple: Simple, facts: Facts): boolean {
  if (OTHER_HOME.test(word.source)) return true;
  if (PRESENT_FOLDER.test(word.source)) return isRoot(literal('.'), simple, facts);
  const standing = DEFAULTED.exec(word.source);
  if (word.text.includes(UNKNOWN)) {
    const text = `${standing?.[1] ?? ''}${standing?.[2] ?? ''}`;
    return text !== '' && !/[$`]/.test(text) && isRoot(literal(text), simple, facts);
  }
  const stem = word.text
    .replace(/(?<=.)\/+$/, '')
    .replace(/\/[.![\]]*[*?][*?.![\]]*$/, '/')
    .replace(/^\.?[*?]+$/, '.');
  if (stem === '' || (!stem.startsWith('/') && !stem.startsWith('~') && simple.cwd === undefined)) return false;
  const path = normalisePath(stem, simple.cwd ?? '/', facts.home);
  return path === '/' || isInside(facts.home, path) || isInside(facts.project, path);
}

const isBlockDevice = (path: string): boolean =>
  /^\/dev\/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|dm-|md|loop|mapper\/|sr\d)/.test(normalisePath(path, '/', '/'));

/** The root-destroying form that a command takes; these are denied in every mode. */
export function rootDestroyingForm(simple: Simple, facts: Facts): string | undefined {
  const words = simple.words;
  const name = baseName(words[0]?.text ?? '');
  const rest = words.slice(1);
  const operands = rest.filter((x) => !x.text.startsWith('-'));
  if (isRecursiveDelete(words) && operands.some((x) => isRoot(x, simple, facts))) return 'recursive delete of a root';
  if (/^mkfs(\.|$)/.test(name) || name === 'mke2fs') return 'making a file system';
  const writes = simple.redirects.filter((r) => r.op !== '<' && r.op !== '<&').map((r) => r.target.text);
  if (writes.some(isBlockDevice)) return 'write onto a block device';
  if (name === 'dd' && rest.some((x) => x.text.startsWith('of=') && isBlockDevice(x.text.slice(3))))
    return 'write onto a block device';
  if (/^(tee|cp|mv|shred|wipefs|blkdiscard|truncate)$/.test(name) && isBlockDevice(operands.at(-1)?.text ?? ''))
    return 'write onto a block device';
  const recursive = rest.some((x) => /^-[a-zA-Z]*R/.test(x.text) || x.text === '--recursive');
  const severe = operands
    .slice(1)
    .some(
      (x) => isRoot(x, simple, facts) && !isInside(normalisePath(x.text, simple.cwd ?? '/', facts.home), facts.project),
    );
  if (/^(chmod|chown|chgrp)$/.test(name) && recursive && severe) return `recursive ${name} of a root`;
  if (name === 'find') {
    const deletes = rest.some(
      (x, i) =>
        x.text === '-delete' ||
        (/^-(exec|execdir|ok|okdir)$/.test(x.text) && baseName(rest[i + 1]?.text ?? '') === 'rm'),
    );
    const filtered = rest.some((x) => /^-(i?name|i?path|regex|newer|mtime|size|empty|type)$/.test(x.text));
    if (
      deletes &&
      findStarts(words).some(
        (x) =>
          isRoot(x, simple, facts) &&
          (!filtered || !isInside(normalisePath(x.text, simple.cwd ?? '/', facts.home), facts.project)),
      )
    )
      return 'find that deletes a root';
  }
  return undefined;
}

const BOMB_BODY = String.raw`\s{0,8}[{(](?:[^})]{0,200}?[\s;&|({])?\1(?![\w.-])[^})|&]{0,40}(?:\|&?|&)\s{0,8}\1(?![\w.-])`;
const BOMBS = [
  new RegExp(String.raw`(?<![\w:.])([\w:.]{1,64})[ \t]{0,8}\([ \t]{0,8}\)${BOMB_BODY}`),
  new RegExp(String.raw`(?<!\w)function[ \t]{1,8}([\w:.]{1,64})(?:[ \t]{0,8}\([ \t]{0,8}\))?${BOMB_BODY}`),
];

/** Whether a script defines a function that starts itself twice over. */
export const isForkBomb = (script: string): boolean => BOMBS.some((bomb) => bomb.test(script));
