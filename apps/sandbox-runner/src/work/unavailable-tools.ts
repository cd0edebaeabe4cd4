import { err } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { HostTools } from './host-tools.ts';

const error = { code: ERROR_CODES.unimplemented, message: 'this host has no sandbox and no file tools yet' };

/** Tools of a host that can run nothing: the self-test fails, so that every order is refused. */
export const unavailableTools: HostTools = {
  bash: async () => ({ ending: 'sandbox_failed', error }),
  read: async () => err(error),
  write: async () => err(error),
  inspect: async () => err(error),
  facts: async () => err(error),
  selfTest: async () => ({ backends: [], reason: error.message }),
  close: async () => undefined,
};
