const MAX_LENGTH = 64;

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(
        Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)),
      );
    row = next;
  }
  return row[b.length] ?? a.length;
}

/** The candidate that a misspelt name most likely meant; undefined if none is close. */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const folded = name.toLowerCase().replaceAll(/[-_]/g, '');
  let best: string | undefined;
  let least = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const candidate of candidates) {
    const d = distance(folded, candidate.toLowerCase().replaceAll(/[-_]/g, ''));
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}
