import { err, ok, type Result } from '@countersign/kernel';

/** A text with every CRLF as LF, and where each of its characters begins in the original. */
type Plain = { readonly text: string; readonly origin: (index: number) => number };

function plainOf(text: string): Plain {
  const breaks: number[] = [];
  const plain = text.replace(/\r\n/g, (_, at: number) => {
    breaks.push(at - breaks.length);
    return '\n';
  });
  const origin = (index: number): number => {
    let low = 0;
    for (let high = breaks.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((breaks[middle] ?? 0) < index) low = middle + 1;
      else high = middle;
    }
    return index + low;
  };
  return { text: plain, origin };
}

const count = (text: string, part: string): number => text.split(part).length - 1;

/** Line ending of the replaced part, else the one that most lines of the text have. */
function endingFor(part: string, text: string): string {
  const sample = part.includes('\n') ? part : text;
  const crlf = count(sample, '\r\n');
  return crlf * 2 > count(sample, '\n') ? '\r\n' : '\n';
}

/** True when the part occurs a second time, overlapping occurrences included. */
const isRepeated = (text: string, part: string, first: number): boolean => text.indexOf(part, first + 1) !== -1;

/**
 * Replaces the one occurrence of `oldText`. Line endings are compared as equal and kept: a multi-line text given with LF
 * matches a CRLF file, and what is put in gets the ending of its place. Everything outside the match stays as it is.
 */
export function editText(text: string, oldText: string, newText: string): Result<string, 'not_found' | 'not_unique'> {
  const plain = plainOf(text);
  const wanted = plainOf(oldText).text;
  const first = plain.text.indexOf(wanted);
  if (wanted === '' || first === -1) return err('not_found');
  if (isRepeated(plain.text, wanted, first)) return err('not_unique');
  const from = plain.origin(first);
  const to = plain.origin(first + wanted.length);
  const ending = endingFor(text.slice(from, to), text);
  const put = plainOf(newText).text.replaceAll('\n', ending);
  return ok(text.slice(0, from) + put + text.slice(to));
}
