import { useCallback, useMemo, useState } from 'react';
import type { Call } from '../api/calls.ts';

/** Marked calls. A call that does not wait any more is not marked any more. */
export function useMarked(calls: readonly Call[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const marked = useMemo(() => {
    if (ids.size === 0) return ids;
    const waiting = new Set(calls.map(({ callId }) => callId));
    return new Set([...ids].filter((id) => waiting.has(id)));
  }, [ids, calls]);
  /** Marks or unmarks; without `on` each is turned over. */
  const mark = useCallback((changed: readonly string[], on?: boolean) => {
    setIds((before) => {
      const after = new Set(before);
      for (const id of changed) {
        if (on ?? !after.has(id)) after.add(id);
        else after.delete(id);
      }
      return after;
    });
  }, []);
  const clear = useCallback(() => setIds(new Set()), []);
  return { marked, mark, clear };
}
