import { err, ok, type Result } from '@countersign/kernel';
import { findSuspicious } from '@countersign/patterns';
import type { Narrowing } from '../grants/grant.ts';
import type { View } from './view.ts';

/**
 * The view after a person took something away. INVARIANT: the result reaches at most what `view` reaches; anything that
 * would widen it is refused with the reason.
 */
export function narrowView(view: View, narrowing: Narrowing): Result<View, string> {
  const { obligations } = view;
  const foreign = narrowing.hosts?.find((host) => !obligations.hosts.includes(host));
  if (foreign !== undefined) return err(`host \`${foreign.slice(0, 200)}\` is not one that the call may reach`);
  if ((narrowing.timeoutMs ?? 0) > obligations.timeout_ms)
    return err(`the call may run for ${obligations.timeout_ms} ms; a person can only shorten that`);
  const odd = narrowing.readOnlyPaths?.find((path) => findSuspicious(path) !== undefined || /[\n\r\t]/.test(path));
  if (odd !== undefined) return err('a read-only path holds invisible or control characters');
  return ok({
    ...view,
    obligations: {
      ...obligations,
      deny_write: [...new Set([...obligations.deny_write, ...(narrowing.readOnlyPaths ?? [])])].sort(),
      timeout_ms: narrowing.timeoutMs ?? obligations.timeout_ms,
      hosts: narrowing.hosts === undefined ? obligations.hosts : [...narrowing.hosts].sort(),
    },
  });
}

/** The view of a later call under a grant with this narrowing: hosts that both allow, the shorter time, all read-only paths. */
export const heldTo = (view: View, narrowing: Narrowing | undefined): View => {
  if (narrowing === undefined) return view;
  const { hosts, timeout_ms: timeoutMs } = view.obligations;
  const narrowed = narrowView(view, {
    ...narrowing,
    hosts: narrowing.hosts === undefined ? hosts : hosts.filter((host) => narrowing.hosts?.includes(host)),
    timeoutMs: Math.min(timeoutMs, narrowing.timeoutMs ?? timeoutMs),
  });
  return narrowed.ok ? narrowed.value : view;
};
