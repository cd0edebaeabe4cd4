interface Node<T> {
  readonly next: Map<string, Node<T>>;
  /** Values whose prefix ends here, behind a whole word. */
  readonly whole: T[];
  /** Values whose prefix ends inside the next word, by the letters they need; the lengths of those letters beside it. */
  readonly cut: Map<string, T[]>;
  readonly lengths: number[];
}

const node = <T>(): Node<T> => ({ next: new Map(), whole: [], cut: new Map(), lengths: [] });

/**
 * Finds values by the literal text that a command must begin with, word by word, so that the cost of a look-up grows with
 * the length of the command and not with the number of values. Answers may hold too many values, never too few.
 */
export class PrefixIndex<T> {
  readonly #root = node<T>();

  /** `open`: anything may follow the prefix, even inside its last word; otherwise a whole word must end there. */
  add(prefix: string, open: boolean, value: T): void {
    const words = prefix.split(' ');
    const last = open ? (words.pop() ?? '') : '';
    let at = this.#root;
    for (const word of words) {
      let below = at.next.get(word);
      if (below === undefined) {
        below = node<T>();
        at.next.set(word, below);
      }
      at = below;
    }
    if (last === '') {
      at.whole.push(value);
      return;
    }
    const list = at.cut.get(last);
    if (list !== undefined) list.push(value);
    else {
      at.cut.set(last, [value]);
      if (!at.lengths.includes(last.length)) at.lengths.push(last.length);
    }
  }

  /** Every value whose prefix the text begins with. */
  along(text: string): T[] {
    const out: T[] = [...this.#root.whole];
    let at = this.#root;
    for (let from = 0; ; ) {
      const space = text.indexOf(' ', from);
      const word = space === -1 ? text.slice(from) : text.slice(from, space);
      for (const length of at.lengths) {
        if (length > word.length) continue;
        const cut = at.cut.get(word.slice(0, length));
        if (cut !== undefined) out.push(...cut);
      }
      const below = at.next.get(word);
      if (below === undefined) return out;
      at = below;
      out.push(...at.whole);
      if (space === -1) return out;
      from = space + 1;
    }
  }

  /** Every value whose prefix the text begins with, or which begins with the text. */
  around(text: string): T[] {
    const out = this.along(text);
    const words = text.split(' ');
    const last = words.pop() ?? '';
    let at = this.#root;
    for (const word of words) {
      const below = at.next.get(word);
      if (below === undefined) return out;
      at = below;
    }
    for (const [letters, values] of at.cut) if (letters.startsWith(last)) out.push(...values);
    const open = [...at.next].flatMap(([word, below]) => (word.startsWith(last) ? [below] : []));
    for (let below = open.pop(); below !== undefined; below = open.pop()) {
      out.push(...below.whole);
      for (const values of below.cut.values()) out.push(...values);
      open.push(...below.next.values());
    }
    return out;
  }
}
