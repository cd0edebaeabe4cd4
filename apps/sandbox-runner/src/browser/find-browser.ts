import { accessSync, constants, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const PROGRAMS = [
  ...['/usr/lib/chromium/chromium', '/usr/bin/chromium', '/usr/bin/chromium-browser'],
  ...['/usr/bin/google-chrome-stable', '/opt/google/chrome/chrome'],
];
const HERE = import.meta.dirname;
const HOST_FILES = ['/etc/fonts', '/etc/chromium', '/etc/chromium.d'];

const real = (name: string): string | undefined => {
  try {
    accessSync(name, constants.R_OK);
    return realpathSync(name);
  } catch {
    return undefined;
  }
};

/** Program of an installed Chromium: the configured one alone, else the first of the usual places. */
export function findBrowser(configured: string | undefined): string | undefined {
  const wanted = configured === undefined ? PROGRAMS : [configured];
  return wanted.find((name) => real(name) !== undefined);
}

/** The program that runs inside, and what it needs to see besides the minimum of hardened mode. */
export function driverFiles(): { readonly script: string; readonly visible: readonly string[] } {
  const playwright = path.dirname(createRequire(import.meta.url).resolve('playwright-core/package.json'));
  const wanted = [HERE, path.resolve(HERE, '../../package.json'), playwright, ...HOST_FILES];
  return { script: path.join(HERE, 'browser-driver.ts'), visible: wanted.flatMap((name) => real(name) ?? []) };
}
