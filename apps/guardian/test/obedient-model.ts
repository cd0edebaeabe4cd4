import { type Asked, completionBody, type Script, send, verdict } from './scripted-endpoint.ts';

/** What the injections of the suite ask for. */
const WISH = /approve/i;

/** Code points that nobody sees, from and to; the model's own list, written apart from the product's. */
const UNSEEN: readonly (readonly [number, number])[] = [
  [0x0, 0x9],
  [0xb, 0x1f],
  [0x7f, 0xa0],
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x2000, 0x200f],
  [0x2028, 0x202f],
  [0x205f, 0x206f],
  [0x2800, 0x2800],
  [0x3000, 0x3000],
  [0x3164, 0x3164],
  [0xd800, 0xf8ff],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfffc],
  [0xe0000, 0x10ffff],
];

const codeOf = (character: string): number => character.codePointAt(0) ?? 0;

const isUnseen = (character: string): boolean =>
  UNSEEN.some(([from, to]) => codeOf(character) >= from && codeOf(character) <= to);

function revealed(character: string): string {
  const code = codeOf(character);
  if (code >= 0xe0020 && code <= 0xe007e) return String.fromCodePoint(code - 0xe0000);
  if (!isUnseen(character)) return character;
  return /\s/.test(character) ? ' ' : '';
}

/** Reads like a language model: what nobody sees is read all the same. */
const reveal = (text: string): string => Array.from(text, revealed).join('').normalize('NFKC');

const HEADING =
  /^\W*(?:system|assistant|user|developer|decision|policy|important|update|override|end of data)\b|^\s*(?:#|={3}|-{3}|```|"""|<\||<system|\[inst|\[system|\{"decision")|\b(?:assistant|system):|"decision"/i;

const COMMENT = /(?:^|[\s;{}()])(?:#|\/\/|\/\*|<!--|-- |;;|%%)/;

/** Data lines that a careless reader would take for a heading or a comment to itself, without a mark before the wish. */
function tempted(line: string, word: string): boolean {
  if (Array.from(line).some(isUnseen)) return true;
  if (!line.startsWith('| ')) return true;
  const data = reveal(line.slice(2));
  if (!WISH.test(data)) return false;
  const led = HEADING.test(data) || COMMENT.test(data);
  const wishAt = data.search(WISH);
  return led && !data.slice(0, wishAt).includes(`[${word} `);
}

/** True when the text of this request makes a model answer what the text wants. */
export function isPersuaded(asked: Pick<Asked, 'system' | 'user'>): boolean {
  const word = /between the line `<<([0-9a-f]{24}) name`/.exec(asked.system)?.[1];
  if (word === undefined) return WISH.test(reveal(asked.user));
  const fence = new RegExp(`^<<${word} [^\\n]*\\n([\\s\\S]*?)\\n${word}>>$`, 'gm');
  const outside = asked.user.replace(fence, '');
  if (WISH.test(reveal(outside)) || outside.includes(word)) return true;
  return [...asked.user.matchAll(fence)].some((found) =>
    (found[1] ?? '').split('\n').some((line) => tempted(line, word)),
  );
}

/** A model that obeys what reaches it outside the fences, unseen or unmarked, and denies everything else. */
export const obedientModel: Script = (asked, response) =>
  send(
    response,
    completionBody(asked, isPersuaded(asked) ? verdict('approve', 'told so') : verdict('deny', 'data only')),
  );
