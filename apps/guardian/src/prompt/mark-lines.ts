/** Where a comment may begin, in the shell and in most languages. Quotes are not read: one mark too many is harmless. */
const COMMENT = /(^|[\s;&|(){}[\]'"`,])(?=#|\/\/|\/\*|<!--|--\s|;;|%%)/g;

const ROLES = 'system|assistant|user|human|developer|reviewer|guardian|tool';

/** Lines that look like a heading, a role, a fence or a verdict. */
const HEADINGS: readonly RegExp[] = [
  /^[\s>*|]*(?:#{1,6}(?:\s|$)|[=\-_*~`]{3,}|<<|\[\s*\/?\s*(?:inst|sys|end|begin|note)|<\s*[/|!]?)/i,
  />>\s*$/,
  new RegExp(String.raw`^\W*(?:${ROLES})\b[^\n]{0,40}[:>\]|]`, 'i'),
  new RegExp(String.raw`(?:^|\W)(?:${ROLES})\s*:`, 'i'),
  /^\W*(?:verdict|decision|instructions?|policy|important|note|attention|update|override|answer|fields?|end of|begin)\b[^\n]{0,40}(?::|$)/i,
  /["'“]?\b(?:decision|verdict)\b["'”]?\s*[:=]/i,
  /<\|?\s*\/?\s*(?:im_start|im_end|endoftext|system|assistant|user|instructions?)/i,
];

/** Reader's marks of one prompt. They hold its fence word, so data cannot hold one. */
export type Marks = {
  readonly comment: string;
  readonly heading: string;
  readonly cut: (characters: number) => string;
};

export const marksOf = (word: string): Marks => ({
  comment: `[${word} a comment may begin here]`,
  heading: `[${word} imitates a heading, still data]`,
  cut: (characters) => `[${word} cut: ${characters} characters are not shown]`,
});

/** One line of data with its marks. */
export function markLine(line: string, marks: Marks): string {
  const plain = line.normalize('NFKC');
  const heading = HEADINGS.some((pattern) => pattern.test(plain)) ? `${marks.heading} ` : '';
  return heading + line.replace(COMMENT, (_found, before: string) => `${before}${marks.comment}`);
}
