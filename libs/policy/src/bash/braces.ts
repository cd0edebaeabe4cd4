const MAX_WORDS = 64;

/** Expands the comma braces of a word without quotes or expansions; undefined if it is not that simple. */
export function expandBraces(text: string): string[] | undefined {
  if (text.length > 1024 || /["'`$\\]|\.\./.test(text)) return undefined;
  let open = [text];
  for (let round = 0; round < 16; round++) {
    const next: string[] = [];
    let changed = false;
    for (const word of open) {
      const m = /^(.*?)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(word);
      if (m === null) next.push(word);
      else {
        changed = true;
        for (const item of (m[2] ?? '').split(',')) next.push(`${m[1]}${item}${m[3]}`);
      }
      if (next.length > MAX_WORDS) return undefined;
    }
    if (!changed) return open.filter((w) => w !== '');
    open = next;
  }
  return undefined;
}
