import { useEffect, useState } from 'react';

/** A card answers to no click and no key for this long after it appeared or changed. */
export const GUARD_MS = 700;

/** False until `key` was shown, in a visible page, for the guard time. */
export function useGuardTime(key: string): boolean {
  const [settled, setSettled] = useState<string>();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const start = () => {
      clearTimeout(timer);
      setSettled(undefined);
      if (document.visibilityState === 'visible') timer = setTimeout(() => setSettled(key), GUARD_MS);
    };
    start();
    document.addEventListener('visibilitychange', start);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', start);
    };
  }, [key]);
  return settled === key;
}
