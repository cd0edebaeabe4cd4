import { err, ok, type Result } from '@countersign/kernel';

/** Profiles, from the narrowest to the widest. */
export const PROFILES = ['read-only', 'workspace-write', 'networked', 'full-access'] as const;
export type Profile = (typeof PROFILES)[number];

/** Whether the project is writable and its protected names are guarded. */
export const writesProject = (profile: Profile): boolean => profile === 'workspace-write' || profile === 'networked';

/** Folders that a sandbox is made of: real, absolute, normalised paths. */
export type Places = {
  readonly project: string;
  readonly temp: string;
  readonly cache: string;
  readonly home: string;
  /** The running code. */
  readonly installation: string;
  /** State of the sandboxes of this account. */
  readonly state: string;
};

/** A folder that may not be used for what it was named for. */
export type PlaceError = { readonly code: 'bad_root'; readonly message: string };

/** Names that are read-only at the root of a project and of every repository in it, whether they exist or not. */
export const PROTECTED_NAMES: readonly string[] = ['.git', '.agents', '.foya', '.countersign'];

const SYSTEM_TREES = ['/bin', '/boot', '/dev', '/etc', '/lib', '/lib32', '/lib64', '/libx32', '/proc', '/sbin', '/sys'];
const SYSTEM_FOLDERS = [
  ...['/home', '/lost+found', '/media', '/mnt', '/opt', '/root', '/run', '/srv', '/tmp', '/usr', '/var'],
  ...[
    '/usr/bin',
    '/usr/include',
    '/usr/lib',
    '/usr/lib64',
    '/usr/libexec',
    '/usr/local',
    '/usr/local/bin',
    '/usr/sbin',
  ],
  ...[
    '/usr/local/lib',
    '/usr/local/sbin',
    '/usr/share',
    '/var/cache',
    '/var/lib',
    '/var/log',
    '/var/spool',
    '/var/tmp',
  ],
];

/** Whether `path` is `folder` or lies below it. Both are normalised. */
export const isInside = (path: string, folder: string): boolean =>
  folder === '/' || path === folder || path.startsWith(`${folder}/`);

function isSystem(folder: string): boolean {
  return SYSTEM_TREES.some((tree) => isInside(folder, tree)) || SYSTEM_FOLDERS.includes(folder);
}

const bad = (message: string): Result<never, PlaceError> => err({ code: 'bad_root', message });

function checkProject({ project, home, installation }: Places): Result<undefined, PlaceError> {
  if (project === '/' || isInside(home, project)) {
    return bad(`project \`${project}\` is or holds the home folder; name a folder below it`);
  }
  const inside = project.split('/').find((name) => PROTECTED_NAMES.includes(name));
  if (inside) return bad(`project \`${project}\` is or lies in a protected \`${inside}\`; name the folder above it`);
  if (isSystem(project)) return bad(`project \`${project}\` is a system folder; use a folder of your own`);
  if (isInside(installation, project) || isInside(project, installation)) {
    return bad(`project \`${project}\` overlaps the running installation \`${installation}\`; use another folder`);
  }
  return ok(undefined);
}

function checkSharedFolder(kind: string, folder: string, home: string): Result<undefined, PlaceError> {
  const isTemp = folder === '/tmp' || folder === '/var/tmp';
  if (isInside(home, folder)) return bad(`${kind} folder \`${folder}\` is or holds the home folder; set another`);
  if (isSystem(folder) && !isTemp) return bad(`${kind} folder \`${folder}\` is a system folder; set another`);
  return ok(undefined);
}

/**
 * Refuses places with which a writable root would reach the home, the system, the running code or the runner's state.
 * The roots of `full-access` are everything, so that only the masks stand before the state there.
 */
export function checkPlaces(places: Places, profile: Profile): Result<undefined, PlaceError> {
  const project = checkProject(places);
  if (!project.ok) return project;
  for (const kind of ['temp', 'cache'] as const) {
    const shared = checkSharedFolder(kind, places[kind], places.home);
    if (!shared.ok) return shared;
  }
  if (profile === 'full-access') return ok(undefined);
  const holder = writableRoots(profile, places).find((root) => isInside(places.state, root));
  return holder ? bad(`sandbox state \`${places.state}\` lies in the writable \`${holder}\`; move one`) : ok(undefined);
}

/** Folders that the profile may write, shallow first. */
export function writableRoots(profile: Profile, places: Places): readonly string[] {
  if (profile === 'full-access') return ['/'];
  const shared = [places.temp, places.cache];
  return shallowFirst(writesProject(profile) ? [...shared, places.project] : shared);
}

const depth = (path: string): number => path.split('/').length;

/** Each path once, folders before what lies in them. */
export const shallowFirst = (paths: readonly string[]): readonly string[] =>
  [...new Set(paths)].sort((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1));
