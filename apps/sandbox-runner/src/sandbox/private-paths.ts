import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

type Variables = Readonly<Record<string, string | undefined>>;

/** Folders of a data folder that agents work in; everything else in it is private. */
const OPEN = new Set(['projects', 'home']);
const MAX_LIST_CHARS = 65_536;

const entries = async (folder: string): Promise<string[]> =>
  (await readdir(folder).catch(() => [])).map((name) => path.join(folder, name));

const privateOf = async (data: string): Promise<string[]> =>
  (await entries(data)).filter((entry) => !OPEN.has(path.basename(entry)));

/** Data folders at a place of their own, one absolute path a line. */
async function namedDataFolders(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.slice(0, MAX_LIST_CHARS).split('\n').filter(path.isAbsolute);
}

/**
 * State, keys and credentials of installations that this account can reach. SECURITY: masked in every profile that has a
 * mount namespace, whatever a policy says.
 */
export async function privatePaths(environment: Variables, home: string): Promise<readonly string[]> {
  const { XDG_STATE_HOME, XDG_CONFIG_HOME, COUNTERSIGN_CONFIG } = environment;
  const state = path.join(XDG_STATE_HOME || path.join(home, '.local/state'), 'countersign');
  const named = await namedDataFolders(path.join(state, 'data-folders'));
  const folders = [...(await entries(state)), ...(await entries('/var/lib/countersign')), ...named];
  const config = [path.join(XDG_CONFIG_HOME || path.join(home, '.config'), 'countersign'), COUNTERSIGN_CONFIG ?? ''];
  const own = (await Promise.all(folders.map(privateOf))).flat();
  return [...own, path.join(state, 'data-folders'), ...config.filter(path.isAbsolute)];
}
