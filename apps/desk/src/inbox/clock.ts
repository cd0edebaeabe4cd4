import type { TFunction } from 'i18next';
import { useCallback, useSyncExternalStore } from 'react';

const LONGEST_TICK_MS = 10_000;
type Ticker = { readonly watchers: Set<() => void>; readonly timer: ReturnType<typeof setInterval> };
const tickers = new Map<number, Ticker>();

/** Calls `watcher` every `tickMs`, in the same moment as all others that asked for it, until the returned function is called. */
function onTick(tickMs: number, watcher: () => void): () => void {
  const watchers = tickers.get(tickMs)?.watchers ?? new Set<() => void>();
  if (watchers.size === 0) {
    const timer = setInterval(() => {
      for (const one of watchers) one();
    }, tickMs);
    tickers.set(tickMs, { watchers, timer });
  }
  watchers.add(watcher);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(tickers.get(tickMs)?.timer);
    tickers.delete(tickMs);
  };
}

/** The time, rounded down to steps of `stepMs`; components are told when a new step begins. */
export function useNow(stepMs = 1_000): number {
  const watch = useCallback((watcher: () => void) => onTick(Math.min(stepMs, LONGEST_TICK_MS), watcher), [stepMs]);
  return useSyncExternalStore(watch, () => Math.floor(Date.now() / stepMs) * stepMs);
}

/** A length of time in words: seconds below two minutes, then minutes, hours, days. */
export function duration(t: TFunction<'desk'>, ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return t('time.s', { count: seconds });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return t('time.m', { count: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 72) return t('time.h', { count: hours, minutes: minutes % 60 });
  return t('time.d', { count: Math.floor(hours / 24) });
}
