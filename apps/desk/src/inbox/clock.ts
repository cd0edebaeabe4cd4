import type { TFunction } from 'i18next';
import { useCallback, useSyncExternalStore } from 'react';

/** The time, rounded down to steps of `stepMs`; components are told when a new step begins. */
export function useNow(stepMs = 1_000): number {
  const watch = useCallback(
    (watcher: () => void) => {
      const timer = setInterval(watcher, Math.min(stepMs, 10_000));
      return () => clearInterval(timer);
    },
    [stepMs],
  );
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
