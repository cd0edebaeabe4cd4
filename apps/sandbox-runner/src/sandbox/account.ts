import { readFileSync } from 'node:fs';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuse } from './sandbox-error.ts';

const ALL_IDS = 4_294_967_295;

/** Whether this process is uid 0 of the host, and not only of a user namespace of its own. */
export function isHostRoot(): boolean {
  if (process.geteuid?.() !== 0 && process.getuid?.() !== 0) return false;
  try {
    const [inner, outer, count] = readFileSync('/proc/self/uid_map', 'utf8').trim().split(/\s+/).map(Number);
    return !(inner === 0 && outer !== 0 && outer !== undefined) || count === ALL_IDS;
  } catch {
    return true;
  }
}

/** SECURITY: neither a command nor a file tool runs as uid 0 of the host. */
export function refuseHostRoot(): void {
  if (!isHostRoot()) return;
  refuse(
    ERROR_CODES.badOwner,
    'nothing runs as root; set `COUNTERSIGN_RUN_AS` to the uid that owns the project, or start this as that account',
  );
}

/** The account of this process. */
export const accountUid = (): number => process.getuid?.() ?? -1;
