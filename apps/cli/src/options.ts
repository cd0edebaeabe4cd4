import { plainText, usage } from './output.ts';

export type Range = { readonly least?: number; readonly most?: number };

/** A number as somebody typed it, decimal digits alone; `name` is the option or argument, for the message. */
export function wholeNumber(
  text: string,
  name: string,
  { least = 1, most = Number.MAX_SAFE_INTEGER }: Range = {},
): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  throw usage(`\`${name}\` is a whole number ${range}, not \`${plainText(text)}\``);
}

/** Parser of an option that may be repeated. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value];
