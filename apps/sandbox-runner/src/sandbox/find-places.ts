import { mkdirSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { checkPlaces, isInside, type Places, type Profile } from '@countersign/sandbox';
import { accountUid } from './account.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

type Variables = Readonly<Record<string, string | undefined>>;

async function realFolder(kind: string, folder: string): Promise<string> {
  if (!path.isAbsolute(folder)) refuse(ERROR_CODES.badRoot, `${kind} folder \`${folder}\` is not absolute`);
  try {
    const real = realpathSync.native(folder);
    if (statSync(real).isDirectory()) return real;
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown';
    const code = kind === 'project' && reason === 'EACCES' ? ERROR_CODES.badOwner : ERROR_CODES.badRoot;
    refuse(code, `${kind} folder \`${folder}\` cannot be reached by uid ${accountUid()} (${reason})`);
  }
  return refuse(ERROR_CODES.badRoot, `${kind} folder \`${folder}\` is not a folder`);
}

async function madeFolder(kind: string, folder: string): Promise<string> {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch {
    // The look-up below says what is wrong with it.
  }
  return realFolder(kind, folder);
}

/** The system's temporary folder, or one in the cache for a home that lies below it. */
async function tempFolder({ TMPDIR }: Variables, home: string, cachePath: string): Promise<string> {
  if (TMPDIR) return realFolder('temp', TMPDIR);
  const shared = await realFolder('temp', '/tmp');
  return isInside(home, shared) ? madeFolder('temp', `${cachePath}/tmp`) : shared;
}

async function checkOwner(project: string): Promise<void> {
  const { uid } = statSync(project);
  if (uid === accountUid()) return;
  refuse(
    ERROR_CODES.badOwner,
    `project \`${project}\` belongs to uid ${uid} and commands run as uid ${accountUid()}; ` +
      `set \`COUNTERSIGN_RUN_AS=${uid}\` or run \`chown -R ${accountUid()}\` on it`,
  );
}

/** Folder of what the sandboxes of an account keep between runs. */
export function statePath(environment: Variables, home: string): string {
  return `${environment.XDG_STATE_HOME || `${home}/.local/state`}/countersign-sandbox`;
}

export type PlacesRequest = {
  readonly project: string;
  readonly profile: Profile;
  readonly installation: string;
  /** Home of the account, and TMPDIR, XDG_CACHE_HOME, XDG_STATE_HOME where they are set. */
  readonly environment: Variables;
};

/** Real paths of everything a sandbox is made of. Makes the cache and state folders. Throws a SandboxRefusal. */
export async function findPlaces(request: PlacesRequest): Promise<Places> {
  const { environment, profile } = request;
  if (!environment.HOME) refuse(ERROR_CODES.badRoot, 'this account has no `HOME`; set it');
  const home = await realFolder('home', environment.HOME);
  const project = await realFolder('project', request.project);
  const installation = await realFolder('installation', request.installation);
  const cachePath = environment.XDG_CACHE_HOME || `${home}/.cache`;
  const temp = await tempFolder(environment, home, cachePath);
  const stateFolder = statePath(environment, home);
  const early = checkPlaces({ project, home, installation, temp, cache: cachePath, state: stateFolder }, profile);
  if (!early.ok) refuse(ERROR_CODES.badRoot, early.error.message);
  const cache = await madeFolder('cache', cachePath);
  const places = { project, home, installation, temp, cache, state: await madeFolder('state', stateFolder) };
  const checked = checkPlaces(places, profile);
  if (!checked.ok) refuse(ERROR_CODES.badRoot, checked.error.message);
  await checkOwner(project);
  return places;
}
