import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import type { InboxSearch } from './inbox-search.ts';

/** Pause after the last key until the address takes the search: each new address makes every link of the page again. */
const SETTLE_MS = 400;

export const withText = ({ q: _old, ...rest }: InboxSearch, q: string): InboxSearch =>
  q === '' ? rest : { ...rest, q };

/**
 * What the box gave the address and has not seen there yet, once `found` stands in it: an address may come late, and one that
 * another followed at once may never come. Undefined when `found` is not the box's own.
 */
export function stillOnTheWay(given: readonly string[], found: string): readonly string[] | undefined {
  const at = given.indexOf(found);
  return at < 0 ? undefined : given.slice(at + 1);
}

/**
 * The search as it is typed: the list follows each key at once, the address when the typing paused. A search that came with
 * an address (a saved view, the browser's way back) takes the place of what was typed; the box's own does not, so that a key
 * which was pressed meanwhile stays.
 */
export function useTypedSearch(search: InboxSearch, setSearch: (change: (before: InboxSearch) => InboxSearch) => void) {
  const inAddress = search.q ?? '';
  const [text, setText] = useState(inAddress);
  const seen = useRef(inAddress);
  const given = useRef<readonly string[]>([]);
  const settle = useDebouncedCallback((q: string) => {
    if (q === (given.current.at(-1) ?? seen.current)) return;
    given.current = [...given.current, q];
    setSearch((before) => withText(before, q));
  }, SETTLE_MS);
  useEffect(() => {
    if (inAddress === seen.current) return;
    seen.current = inAddress;
    const own = stillOnTheWay(given.current, inAddress);
    given.current = own ?? [];
    if (own) return;
    settle.cancel();
    setText(inAddress);
  }, [inAddress, settle]);
  const type = (q: string) => {
    setText(q);
    settle(q);
  };
  /** Gives the address what was typed, without waiting for a pause. */
  const typed = () => settle.flush();
  return { text, type, typed };
}
