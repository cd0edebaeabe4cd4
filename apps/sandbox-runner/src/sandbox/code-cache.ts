import { lstatSync, mkdirSync, realpathSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import path from 'node:path';

type Variables = Readonly<Record<string, string | undefined>>;

const within = (file: string, folder: string): boolean => file === folder || file.startsWith(`${folder}/`);

/**
 * Keeps compiled code of this program in the state folder of the account, which halves the time to a command.
 * SECURITY: what lies there is executed. So it is used only where the folder is this account's alone and lies in nothing
 * that a sandbox of this account can write: no temporary folder, no cache, not the working folder.
 */
export function keepCompiledCode(environment: Variables): void {
  const { HOME, XDG_STATE_HOME, XDG_CACHE_HOME, TMPDIR } = environment;
  const uid = process.getuid?.();
  if (!HOME || uid === undefined || uid === 0) return;
  const folder = path.join(XDG_STATE_HOME || path.join(HOME, '.local/state'), 'countersign-sandbox', 'code');
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const found = lstatSync(folder);
    const real = realpathSync(folder);
    const open = ['/tmp', TMPDIR, XDG_CACHE_HOME, path.join(HOME, '.cache'), process.cwd()];
    const isOpen = open.some((each) => each && path.isAbsolute(each) && within(real, path.resolve(each)));
    if (isOpen || !found.isDirectory() || found.uid !== uid || (found.mode & 0o077) !== 0) return;
    enableCompileCache(real);
  } catch {
    // Without a cache the code is compiled again.
  }
}
