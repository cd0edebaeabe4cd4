import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import type { InboxSearch } from './inbox-search.ts';

/** Pause after the last key until the address takes the search: each new address makes every link of the page again. */
const SETTLE_MS = 400;

export const withText = ({ q: _old, ...rest }: InboxSearch, q: string): InboxSearch =>
  q === '' ? rest : { ...rest, q };

/**
 * The search as it is typed: the list follows each key at once, the address when the typing paused. A search that came with
 * an address (a saved view, the browser's way back) takes the place of what was typed; the box's own does not, so that a key
 * which was pressed meanwhile stays.
 */
export function useTypedSearch(search: InboxSearch, setSearch: (change: (before: InboxSearch) => InboxSearch) => void) {
  const [text, setText] = useState(search.q ?? '');
  const sent = useRef(search.q ?? '');
  const settle = useDebouncedCallback((q: string) => {
    sent.current = q;
    setSearch((before) => withText(before, q));
  }, SETTLE_MS);
  useEffect(() => {
    const found = search.q ?? '';
    if (found === sent.current) return;
    sent.current = found;
    settle.cancel();
    setText(found);
  }, [search.q, settle]);
  const type = (q: string) => {
    setText(q);
    settle(q);
  };
  /** Gives the address what was typed, without waiting for a pause. */
  const typed = () => settle.flush();
  return { text, type, typed };
}
