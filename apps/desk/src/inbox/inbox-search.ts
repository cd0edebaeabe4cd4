/** Filters of the inbox that live in the address. */
export type InboxSearch = {
  readonly q?: string;
  readonly host?: string;
  readonly agent?: string;
  readonly tool?: string;
  readonly queue?: string;
  readonly group?: string;
  readonly sort?: string;
  readonly due?: boolean;
};

const TEXTS = ['q', 'host', 'agent', 'tool', 'queue', 'group', 'sort'] as const;

/** Keeps only known filters with text values, so that an address cannot carry anything else in. */
export function inboxSearch(found: Record<string, unknown>): InboxSearch {
  const texts = TEXTS.flatMap((key) => {
    const value = found[key];
    const text = typeof value === 'string' || typeof value === 'number' ? String(value).slice(0, 500) : '';
    return text === '' ? [] : [[key, text]];
  });
  return { ...Object.fromEntries(texts), ...(found.due === true ? { due: true } : {}) };
}
