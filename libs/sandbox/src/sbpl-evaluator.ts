import { isInside } from './places.ts';
import type { SbplFilter, SbplRule } from './sbpl-reader.ts';

/** One thing that a process does. */
export type SbplUse =
  | { readonly operation: string; readonly path: string }
  | { readonly operation: string; readonly host: string; readonly port: number }
  | { readonly operation: string; readonly unixSocket: string }
  | { readonly operation: string; readonly service: string }
  | { readonly operation: string };

/** `file-write*` speaks about `file-write-unlink`. */
const covers = (rule: string, operation: string): boolean =>
  rule === operation || (rule.endsWith('*') && operation.startsWith(rule.slice(0, -1)));

function addressMatches(pattern: string, host: string, port: number): boolean {
  const [name, number] = [pattern.slice(0, pattern.lastIndexOf(':')), pattern.slice(pattern.lastIndexOf(':') + 1)];
  const isLoopback = host === 'localhost' || host === '127.0.0.1' || host === '::1';
  return (name === '*' || (name === 'localhost' && isLoopback)) && (number === '*' || Number(number) === port);
}

function matches(filter: SbplFilter, use: SbplUse): boolean {
  switch (filter.kind) {
    case 'subpath':
      return 'path' in use && isInside(use.path, filter.path);
    case 'literal':
      return 'path' in use && use.path === filter.path;
    case 'global-name':
      return 'service' in use && use.service === filter.name;
    case 'same-sandbox':
      return false;
    default:
      if (filter.protocol === 'unix-socket') return 'unixSocket' in use;
      return 'host' in use && addressMatches(filter.address, use.host, use.port);
  }
}

/** What a profile answers: the last rule that applies decides, and nothing is allowed that no rule names. */
export function evaluateSbpl(rules: readonly SbplRule[], use: SbplUse): 'allow' | 'deny' {
  const last = rules.findLast(
    ({ operation, filters }) =>
      covers(operation, use.operation) && (filters.length === 0 || filters.some((filter) => matches(filter, use))),
  );
  return last?.action ?? 'deny';
}
