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
  /** An empty file that is shown in the place of masked files. */
  readonly emptyFile: string;
  /** Files of the system that are shown with other content. */
  readonly overlays: readonly Overlay[];
  /** The binary knows `--disable-userns`. */
  readonly canDisableUserns: boolean;
  readonly seccompFd: number;
  readonly statusFd: number;
};

const NAMESPACES = [
  ...['--die-with-parent', '--new-session', '--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts'],
  '--unshare-cgroup-try',
];

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

function plan(facts: SandboxFacts) {
  const { profile, places } = facts;
  const closed = [...facts.readOnly, places.installation, ...(profile === 'read-only' ? [places.project] : [])];
  const roots = writableRoots(profile, places).filter((root) => !closed.some((path) => isInside(root, path)));
  const inRoot = (path: string): boolean => roots.some((root) => isInside(path, root));
  const readOnly = outermost(closed.filter(inRoot));
  const folders = outermost([...facts.maskedFolders, places.state]);
  const files = facts.maskedFiles.filter((file) => !folders.some((folder) => isInside(file, folder)));
  const held = [...readOnly, ...folders, ...files, ...roots];
  const pins = roots.flatMap((root) =>
    held.filter((path) => path !== root && isInside(path, root)).flatMap((path) => between(root, path)),
  );
  return { roots, readOnly, folders, files: shallowFirst(files), pins: shallowFirst(pins) };
}

/**
 * Arguments of bubblewrap up to the command.
 * INVARIANT: a pin comes before the writable bind that hides it: the folder stays writable and cannot be renamed away,
 * because the kernel refuses to rename what is a mount point anywhere in the namespace.
 */
export function bwrapArgv(facts: SandboxFacts): readonly string[] {
  const { roots, readOnly, folders, files, pins } = plan(facts);
  return [
    ...NAMESPACES,
    ...(facts.canDisableUserns ? ['--disable-userns'] : []),
    ...['--unshare-net', '--cap-drop', 'ALL'],
    ...bind('--ro-bind', ['/']),
    ...bind('--ro-bind', pins),
    ...bind('--bind', roots),
    ...bind('--ro-bind', readOnly),
    ...facts.overlays.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...folders.flatMap((folder) => ['--tmpfs', folder, '--remount-ro', folder]),
    ...files.flatMap((file) => ['--ro-bind', facts.emptyFile, file]),
    ...['--dev', '/dev', '--proc', '/proc', '--remount-ro', '/proc'],
    ...['--chdir', facts.cwd],
    ...['--seccomp', String(facts.seccompFd), '--json-status-fd', String(facts.statusFd)],
  ];
}

const MAX_PROCESSES = 1024;

/** `-p` is the process limit of dash, `-u` that of bash. A lower limit that is already in force stays. */
const LIMITS = `ulimit -c 0; ulimit -p ${MAX_PROCESSES} 2>/dev/null || ulimit -u ${MAX_PROCESSES} 2>/dev/null; exec "$@"`;

/** The command below its limits. It is passed as arguments and never becomes part of a script of ours. */
export const limitedCommand = (command: readonly string[]): readonly string[] => [
  ...['/bin/sh', '-c', LIMITS, 'sh'],
  ...command,
];
