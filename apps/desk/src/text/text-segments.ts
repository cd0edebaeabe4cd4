import { type VisiblePart, visibleParts } from './visible-text.ts';

/** A word of a command, as the policy engine parsed it. Places are UTF-16 units of the exact text. */
export type Token = { readonly start: number; readonly end: number; readonly kind: string };
/** A stretch of the text that decided; `number` refers to the list of reasons. */
export type Stretch = {
  readonly start: number;
  readonly end: number;
  readonly effect: string;
  readonly number: number;
};

/** A piece of text with everything that is known of it. */
export type Segment = {
  readonly text: string;
  readonly kind: VisiblePart['kind'];
  readonly token: string | undefined;
  readonly stretch: Stretch | undefined;
  /** True where a stretch begins. */
  readonly opens: boolean;
  readonly start: number;
};

const inside = (part: VisiblePart, start: number, end: number): string =>
  part.kind === 'plain' ? part.text.slice(start - part.start, end - part.start) : part.text;

/** Cuts a text at the borders of hidden characters, words and stretches. Nothing is left out, and nothing is shown twice. */
export function textSegments(
  text: string,
  tokens: readonly Token[] = [],
  stretches: readonly Stretch[] = [],
): readonly Segment[] {
  const cuts = [...new Set([...tokens, ...stretches].flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const segments: Segment[] = [];
  let cut = 0;
  let token = 0;
  const ordered = [...tokens].sort((a, b) => a.start - b.start);
  for (const part of visibleParts(text)) {
    let at = part.start;
    while (at < part.end) {
      while (cut < cuts.length && (cuts[cut] ?? 0) <= at) cut += 1;
      const end = part.kind === 'plain' ? Math.min(part.end, cuts[cut] ?? part.end) : part.end;
      while (token < ordered.length && (ordered[token]?.end ?? 0) <= at) token += 1;
      const word = ordered[token];
      const stretch = stretches.find((found) => found.start <= at && at < found.end);
      segments.push({
        text: inside(part, at, end),
        kind: part.kind,
        token: word && word.start <= at ? word.kind : undefined,
        stretch,
        opens: stretch !== undefined && segments.at(-1)?.stretch !== stretch,
        start: at,
      });
      at = end;
    }
  }
  return segments;
}
