import { statfsSync } from 'node:fs';
import path from 'node:path';

/** True while the file system of `file` has at least `minFreeBytes` for this account; false when it cannot be asked. */
export function hasRoom(file: string, minFreeBytes: number): boolean {
  try {
    const { bavail, bsize } = statfsSync(path.dirname(file));
    return bavail * bsize >= minFreeBytes;
  } catch {
    return false;
  }
}
