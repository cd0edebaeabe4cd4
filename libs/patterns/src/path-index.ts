import type { PathGlob } from './path-glob.ts';

const push = <T>(map: Map<string, T[]>, key: string, value: T): void => {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
};

const baseOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/**
 * Finds path patterns by the directory that they name first, or by the base name or its ending. Keys ignore case. Answers
 * may hold too many values, never too few.
 */
export class PathIndex<T> {
  readonly #byPrefix = new Map<string, T[]>();
  readonly #byName = new Map<string, T[]>();
  readonly #byEnding = new Map<string, T[]>();
  readonly #endings: number[] = [];
  /** Values that every path must be compared with. */
  readonly #others: T[] = [];

  /** Without a pattern the value stands for every path. */
  add(glob: PathGlob | undefined, value: T): void {
    if (glob === undefined || (!glob.baseOnly && glob.literalPrefix === '/')) this.#others.push(value);
    else if (!glob.baseOnly) push(this.#byPrefix, glob.literalPrefix.toLowerCase(), value);
    else if (!/[*?]/.test(glob.source)) push(this.#byName, glob.source.toLowerCase(), value);
    else if (/^\*[^*?]+$/.test(glob.source)) {
      const ending = glob.source.slice(1).toLowerCase();
      push(this.#byEnding, ending, value);
      if (!this.#endings.includes(ending.length)) this.#endings.push(ending.length);
    } else this.#others.push(value);
  }

  /** Every value that could match the normalised absolute path. */
  of(path: string): T[] {
    const out = [...this.#others];
    const folded = path.toLowerCase();
    if (this.#byName.size > 0 || this.#endings.length > 0) {
      const base = baseOf(folded);
      // A short name of Windows may stand for any name.
      if (base.includes('~'))
        for (const list of [...this.#byName.values(), ...this.#byEnding.values()]) out.push(...list);
      else {
        out.push(...(this.#byName.get(base) ?? []));
        for (const length of this.#endings)
          if (length <= base.length) out.push(...(this.#byEnding.get(base.slice(-length)) ?? []));
      }
    }
    if (this.#byPrefix.size === 0) return out;
    if (folded.includes('~')) {
      for (const list of this.#byPrefix.values()) out.push(...list);
      return out;
    }
    for (let at = folded.length; at > 0; at = folded.lastIndexOf('/', at - 1))
      out.push(...(this.#byPrefix.get(folded.slice(0, at)) ?? []));
    return out;
  }
}
