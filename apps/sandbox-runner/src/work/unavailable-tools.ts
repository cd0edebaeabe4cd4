import { err } from '@countersign/kernel';
import type { HostTools } from './host-tools.ts';

/** Tools of a host that can run nothing: the self-test fails, so that every order is refused. */
export function unavailableTools(code: string): HostTools {
  const error = { code, message: 'this host has no sandbox and no file tools yet' };
  return {
    bash: async () => ({ ending: 'sandbox_failed', error }),
    read: async () => err(error),
    search: async () => err(error),
    change: async () => err(error),
    web: async () => err(error),
    endSession: async () => undefined,
    recoverChanges: async () => [],
    inspect: async () => err(error),
    facts: async () => err(error),
    policyFiles: async () => err(error),
    selfTest: async () => ({ backends: [], reason: error.message }),
    close: async () => undefined,
  };
}
