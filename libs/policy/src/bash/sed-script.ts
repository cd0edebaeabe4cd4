import { UNKNOWN } from './words.ts';

/** What running a sed script would do beside editing its input. */
export interface SedEffects {
  /** Files it writes, as spelled. */
  readonly writes: readonly string[];
  /** Files it reads beside its input. */
  readonly reads: readonly string[];
  /** It runs a command. */
  readonly executes: boolean;
  /** The commands it runs, as far as they stand in it; UNKNOWN where they come from the input. */
  readonly runs: readonly string[];
  /** It holds something that is no known sed command; the worst is assumed. */
  readonly odd: boolean;
}

class Cursor {
  readonly text: string;
  at = 0;
  constructor(text: string) {
    this.text = text;
  }
  get here(): string {
    return this.text[this.at] ?? '';
  }
  skip(pattern: RegExp): void {
    while (this.at < this.text.length && pattern.test(this.here)) this.at++;
  }
  /** The text up to one of the stops, which is not consumed. */
  until(stops: string): string {
    const from = this.at;
    while (this.at < this.text.length && !stops.includes(this.here)) this.at++;
    return this.text.slice(from, this.at);
  }
  /** Steps behind the next delimiter that no backslash protects; false when there is none. */
  pass(delimiter: string): boolean {
    for (; this.at < this.text.length; this.at++) {
      if (this.here === '\\') this.at++;
      else if (this.here === delimiter) {
        this.at++;
        return true;
      }
    }
    return false;
  }
}

function passAddress(c: Cursor): boolean {
  if (/[\d$+~]/.test(c.here)) {
    c.at++;
    c.skip(/[\d~]/);
    return true;
  }
  const custom = c.here === '\\';
  if (!custom && c.here !== '/') return true;
  if (custom) c.at++;
  const delimiter = c.here;
  c.at++;
  if (!c.pass(delimiter)) return false;
  c.skip(/[IM]/);
  return true;
}

function passText(c: Cursor): void {
  for (; c.at < c.text.length && c.here !== '\n'; c.at++) if (c.here === '\\') c.at++;
}

/** Reads the flags of `s`; true when they run the result. A `w` flag adds its file to `writes`. */
function substitutionRuns(c: Cursor, writes: string[]): boolean | undefined {
  const delimiter = c.here;
  c.at++;
  if (delimiter === '' || delimiter === '\n' || delimiter === '\\') return undefined;
  if (!c.pass(delimiter) || !c.pass(delimiter)) return undefined;
  let runs = false;
  for (; /[gpiImMew\d]/.test(c.here); c.at++) {
    if (c.here === 'e') runs = true;
    if (c.here !== 'w') continue;
    c.at++;
    writes.push(c.until('\n').trim());
    // SECURITY: implementations disagree whether letters after `w` still are flags.
    return runs || /e$/.test(writes.at(-1) ?? '') ? true : runs;
  }
  return runs;
}

/** Scans a sed script, the parts of several `-e` joined by line breaks. Linear in its length. */
export function scanSedScript(text: string): SedEffects {
  const c = new Cursor(text);
  const writes: string[] = [];
  const reads: string[] = [];
  const runs: string[] = [];
  const odd = { writes, reads, executes: true, runs: [UNKNOWN], odd: true };
  for (let steps = 0; c.at < text.length && steps <= text.length; steps++) {
    c.skip(/[\s;}]/);
    if (c.at >= text.length) break;
    if (!passAddress(c)) return odd;
    c.skip(/\s/);
    if (c.here === ',') {
      c.at++;
      c.skip(/\s/);
      if (!passAddress(c)) return odd;
    }
    c.skip(/[\s!]/);
    const command = c.here;
    c.at++;
    if (command === 'e') {
      runs.push(c.until('\n').trim() || UNKNOWN);
    } else if (command === 'w' || command === 'W') writes.push(c.until('\n').trim());
    else if (command === 's') {
      const replaced = substitutionRuns(c, writes);
      if (replaced === undefined) return odd;
      if (replaced) runs.push(UNKNOWN);
    } else if (command === 'y') {
      const delimiter = c.here;
      c.at++;
      if (!c.pass(delimiter) || !c.pass(delimiter)) return odd;
    } else if (/[aic]/.test(command)) passText(c);
    else if (/[rR]/.test(command)) reads.push(c.until('\n').trim());
    else if (command === '#') c.until('\n');
    else if (/[:btTqQlLv]/.test(command)) c.until(';\n}');
    else if (!/[{}=dDgGhHnNpPxzF]/.test(command) && command !== '') return odd;
  }
  return { writes, reads, executes: runs.length > 0, runs, odd: false };
}
