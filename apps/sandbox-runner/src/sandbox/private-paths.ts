import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

type Variables = Readonly<Record<string, string | undefined>>;

/** Folders of a data folder that agents work in; everything else in it is private. */
const OPEN = new Set(['projects', 'home']);
const MAX_LIST_CHARS = 65_536;

function entries(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => path.join(folder, name));
  } catch {
    return [];
  }
}

const privateOf = (data: string): string[] => entries(data).filter((entry) => !OPEN.has(path.basename(entry)));

/** Data folders at a place of their own, one absolute path a line. */
function namedDataFolders(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').slice(0, MAX_LIST_CHARS).split('\n').filter(path.isAbsolute);
  } catch {
    return [];
  }
}

/**
 * State, keys and credentials of installations that this account can reach. SECURITY: masked in every profile that has a
 * mount namespace, whatever a policy says.
 */
export function privatePaths(environment: Variables, home: string): readonly string[] {
  const { XDG_STATE_HOME, XDG_CONFIG_HOME, COUNTERSIGN_CONFIG } = environment;
  const state = path.join(XDG_STATE_HOME || path.join(home, '.local/state'), 'countersign');
  const named = namedDataFolders(path.join(state, 'data-folders'));
  const folders = [...entries(state), ...entries('/var/lib/countersign'), ...named];
  const config = [path.join(XDG_CONFIG_HOME || path.join(home, '.config'), 'countersign'), COUNTERSIGN_CONFIG ?? ''];
  const own = folders.flatMap(privateOf);
  return [...own, path.join(state, 'data-folders'), ...config.filter(path.isAbsolute)];
}
