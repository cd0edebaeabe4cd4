import { isSubjectToken } from '@countersign/kernel';

/** What may be held or erased. A `range` is of log indexes, both ends within it. */
export type CustodyScope =
  | { readonly kind: 'all' }
  | { readonly kind: 'session'; readonly id: string }
  | { readonly kind: 'agent'; readonly id: string }
  | { readonly kind: 'principal'; readonly id: string }
  | { readonly kind: 'range'; readonly from: number; readonly to: number };

const MAX_NAME = 200;

function rangeOf(text: string): CustodyScope | undefined {
  const [, from, to] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
  if (from === undefined || to === undefined || Number(from) > Number(to)) return undefined;
  return { kind: 'range', from: Number(from), to: Number(to) };
}

/** Reads `all`, `session:<id>`, `agent:<id>`, `principal:<name>` or `range:<first>-<last>`; undefined for anything else. */
export function parseScope(text: string): CustodyScope | undefined {
  if (text === 'all') return { kind: 'all' };
  const [, kind, rest = ''] = /^(session|agent|principal|range):(.*)$/su.exec(text) ?? [];
  if (kind === 'range') return rangeOf(rest);
  if (kind === 'session' || kind === 'agent') return isSubjectToken(rest) ? { kind, id: rest } : undefined;
  const isName = rest !== '' && rest.length <= MAX_NAME && rest.isWellFormed() && !/\p{Cc}/u.test(rest);
  return kind === 'principal' && isName ? { kind, id: rest } : undefined;
}
