import { closeSync, readdirSync, readFileSync } from 'node:fs';

const CLOSE_ON_EXEC = 0o2000000;

function isPassedOn(descriptor: number): boolean {
  try {
    const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    return false;
  }
}

/**
 * Closes what this process inherited and would pass on, save the standard streams and the channel to its parent.
 * SECURITY: an inherited folder descriptor is a way around every mount. Node marks only the first few close-on-exec.
 */
export function closeInheritedDescriptors(): void {
  const channel = Number(process.env.NODE_CHANNEL_FD ?? -1);
  for (const name of readdirSync('/proc/self/fd')) {
    const descriptor = Number(name);
    if (descriptor > 2 && descriptor !== channel && isPassedOn(descriptor)) closeSync(descriptor);
  }
}
