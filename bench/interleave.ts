/** One way of doing the work: runs for about `sliceMs` and tells how much it did. */
export type Arm = { readonly name: string; readonly run: (sliceMs: number) => Promise<Slice> };
export type Slice = { readonly done: number; readonly elapsedMs: number };

/** Ratio of two arms over all rounds. */
export type Ratio = { readonly median: number; readonly low: number; readonly high: number };

/** Rates of every arm (per second), one for each round. */
export type Rates = ReadonlyMap<string, readonly number[]>;

/** Runs every arm once in each round, in rotated order, so that a busy neighbour meets all of them. */
export async function interleave(arms: readonly Arm[], rounds: number, sliceMs: number): Promise<Rates> {
  const rates = new Map<string, number[]>(arms.map((arm) => [arm.name, []]));
  for (let round = 0; round < rounds; round += 1) {
    const turn = round % arms.length;
    for (const arm of [...arms.slice(turn), ...arms.slice(0, turn)]) {
      const { done, elapsedMs } = await arm.run(sliceMs);
      rates.get(arm.name)?.push((done * 1_000) / elapsedMs);
    }
  }
  return rates;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

const RESAMPLES = 2_000;

/** Median of the per-round ratios `of / to`, and its bootstrap interval of 95 %. */
export function ratio(rates: Rates, of: string, to: string): Ratio {
  const below = rates.get(to) ?? [];
  const ratios = (rates.get(of) ?? []).map((rate, round) => rate / (below[round] ?? Number.NaN));
  const medians = Array.from({ length: RESAMPLES }, () =>
    median(ratios.map(() => ratios[Math.floor(Math.random() * ratios.length)] ?? Number.NaN)),
  ).toSorted((a, b) => a - b);
  const at = (share: number) => medians[Math.floor(share * RESAMPLES)] ?? Number.NaN;
  return { median: median(ratios), low: at(0.025), high: at(0.975) };
}

/** True when two arms that do the same thing differ by no more than the method can tell apart. */
export const isQuiet = (same: Ratio): boolean => same.median > 0.85 && same.median < 1.15;

export const show = ({ median: middle, low, high }: Ratio): string =>
  `${middle.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
