import { lstatSync, realpathSync, type Stats, statSync } from 'node:fs';

// Synchronous on purpose: the process that prepares runs does nothing else, and a trip through the thread pool costs ten
// times the call.

/** Real path; undefined when there is none that this account can reach. */
export function realPathOf(name: string): string | undefined {
  try {
    return realpathSync.native(name);
  } catch {
    return undefined;
  }
}

/** What lies at a path, links followed; undefined when nothing can be seen there. */
export function statOf(name: string): Stats | undefined {
  try {
    return statSync(name, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** What lies at a path, a link itself included; undefined when nothing can be seen there. */
export function linkStatOf(name: string): Stats | undefined {
  try {
    return lstatSync(name, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
