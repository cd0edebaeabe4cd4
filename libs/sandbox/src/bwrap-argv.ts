import { isInside, type Places, type Profile, shallowFirst, writableRoots } from './places.ts';

/** A file that is shown read-only in the place of another. */
export type Overlay = { readonly source: string; readonly target: string };

/** What the host was found to hold, from which the arguments follow. All paths are real, absolute and exist. */
export type SandboxFacts = {
  readonly profile: Profile;
  readonly places: Places;
  /** Working folder of the command, in the project. */
  readonly cwd: string;
  /** Protected names, git folders, write-denied paths. */
  readonly readOnly: readonly string[];
  readonly maskedFolders: readonly string[];
  readonly maskedFiles: readonly string[];
  /** Sockets that are over-mounted, so that nobody listens there. */
  readonly maskedSockets: readonly string[];
  /** An empty file that is shown in the place of masked files. */
  readonly emptyFile: string;
  /** Files of the system that are shown with other content. */
  readonly overlays: readonly Overlay[];
  /** Hardened mode: all that can be read of the host. Absent shows everything. */
  readonly visible?: readonly string[];
  /** The temp folder is an empty one in memory, for this run alone. */
  readonly privateTemp: boolean;
  /** Folder that stands in for the user's cache. */
  readonly privateCache?: string;
  /** The program and script that offer the way out of `networked`. */
  readonly bridge?: { readonly node: string; readonly script: string };
  /** The binary knows `--disable-userns`. */
  readonly canDisableUserns: boolean;
  readonly seccompFd: number;
  readonly statusFd: number;
};

const LIFE = ['--die-with-parent', '--new-session', '--unshare-user', '--unshare-pid'];
const APART = ['--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'];
const PRIVATE_TEMP_BYTES = 1_073_741_824;

/** Inner paths of the bridge. `/dev` is a file system of the sandbox's own. */
export const BRIDGE = { node: '/dev/countersign/node', script: '/dev/countersign/bridge.mjs' } as const;

const bind = (option: string, paths: readonly string[]): string[] => paths.flatMap((path) => [option, path, path]);

/** Folders strictly between `root` and `path`. */
function between(root: string, path: string): string[] {
  const parts = path.slice(root === '/' ? 1 : root.length + 1).split('/');
  const base = root === '/' ? '' : root;
  return parts.slice(0, -1).map((_, index) => `${base}/${parts.slice(0, index + 1).join('/')}`);
}

/** Paths that no other of them contains. */
const outermost = (paths: readonly string[]): readonly string[] =>
  shallowFirst(paths).filter((path) => !paths.some((other) => other !== path && isInside(path, other)));

/** The root that holds the path, the deepest first. */
const rootOf = (path: string, roots: readonly string[]): string | undefined =>
  roots.findLast((root) => isInside(path, root));

function plan(facts: SandboxFacts) {
  const { profile, places, visible } = facts;
  const closed = [...facts.readOnly, places.installation, ...(profile === 'read-only' ? [places.project] : [])];
  const roots = writableRoots(profile, places).filter((root) => !closed.some((path) => isInside(root, path)));
  const replaced = [...(facts.privateTemp ? [places.temp] : []), ...(facts.privateCache ? [places.cache] : [])];
  const isReplaced = (path: string): boolean => replaced.includes(rootOf(path, roots) ?? '');
  const isHosts = (path: string): boolean => rootOf(path, roots) !== undefined && !isReplaced(path);
  /** What is to be seen although a folder of this run's own covers its place, such as an installation below `/tmp`. */
  const shownAgain = (visible ?? []).filter(isReplaced);
  const isShown = (path: string): boolean =>
    isHosts(path) ||
    shownAgain.some((each) => isInside(path, each)) ||
    (rootOf(path, roots) === undefined && (!visible || visible.some((each) => isInside(path, each))));
  const readOnly = outermost(closed.filter((path) => isHosts(path) || path === places.project));
  const folders = outermost([...facts.maskedFolders, places.state]).filter(isShown);
  const unmasked = (path: string): boolean => isShown(path) && !folders.some((folder) => isInside(path, folder));
  const files = shallowFirst(facts.maskedFiles.filter(unmasked));
  const sockets = shallowFirst(facts.maskedSockets.filter(unmasked));
  const held = [...readOnly, ...folders, ...files, ...sockets, ...roots];
  const pins = roots.flatMap((root) =>
    held.filter((path) => path !== root && isInside(path, root)).flatMap((path) => between(root, path)),
  );
  return { roots, readOnly, folders, files, sockets, shownAgain, pins: shallowFirst(pins) };
}

/** Each writable root, the outer ones first; what is shown again lies over its root and below the roots inside it. */
function rootMounts(facts: SandboxFacts, roots: readonly string[], shownAgain: readonly string[]): string[] {
  return roots.flatMap((root) => {
    const again = bind(
      '--ro-bind',
      shownAgain.filter((path) => rootOf(path, roots) === root),
    );
    if (facts.privateTemp && root === facts.places.temp)
      return ['--size', String(PRIVATE_TEMP_BYTES), '--perms', '1777', '--tmpfs', root, ...again];
    const source = root === facts.places.cache ? (facts.privateCache ?? root) : root;
    return ['--bind', source, root, ...again];
  });
}

/**
 * INVARIANT: a pin comes before the writable bind that hides it: the folder stays writable and cannot be renamed away,
 * because the kernel refuses to rename what is a mount point anywhere in the namespace. Below a writable `/` nothing
 * can be hidden, so that a pin is a writable bind of its own there.
 */
function fileSystem(
  facts: SandboxFacts,
  roots: readonly string[],
  pins: readonly string[],
  shownAgain: readonly string[],
): string[] {
  if (roots.includes('/')) return [...bind('--bind', ['/']), ...bind('--bind', pins)];
  const base = facts.visible
    ? [...bind('--ro-bind', facts.visible), '--dir', facts.places.home]
    : bind('--ro-bind', ['/']);
  return [...base, ...bind('--ro-bind', pins), ...rootMounts(facts, roots, shownAgain)];
}

/** Arguments of bubblewrap up to the command. */
export function bwrapArgv(facts: SandboxFacts): readonly string[] {
  const { roots, readOnly, folders, files, sockets, shownAgain, pins } = plan(facts);
  const isFull = facts.profile === 'full-access';
  const { bridge } = facts;
  return [
    ...LIFE,
    ...(isFull ? [] : APART),
    ...(facts.canDisableUserns ? ['--disable-userns'] : []),
    ...(isFull ? [] : ['--unshare-net']),
    ...['--cap-drop', 'ALL'],
    ...fileSystem(facts, roots, pins, shownAgain),
    ...bind('--ro-bind', readOnly),
    ...facts.overlays.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...folders.flatMap((folder) => ['--tmpfs', folder, '--remount-ro', folder]),
    ...files.flatMap((file) => ['--ro-bind', facts.emptyFile, file]),
    ...sockets.flatMap((socket) => ['--ro-bind', '/dev/null', socket]),
    ...['--dev', '/dev'],
    ...(bridge ? ['--ro-bind', bridge.node, BRIDGE.node, '--ro-bind', bridge.script, BRIDGE.script] : []),
    ...['--proc', '/proc', '--remount-ro', '/proc'],
    ...(facts.visible ? ['--remount-ro', '/'] : []),
    ...['--chdir', facts.cwd],
    ...['--seccomp', String(facts.seccompFd), '--json-status-fd', String(facts.statusFd)],
  ];
}
