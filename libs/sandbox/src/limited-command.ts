import { BRIDGE } from './bwrap-argv.ts';

const MAX_PROCESSES = 1024;

/** Descriptor over which a command is held until it may run. */
export const HOLD_FD = 5;
/** Descriptor of the channel to the bridge of `networked`. */
export const BRIDGE_FD = 6;

/** Limits of each process of a command; absent means none. */
export type CommandLimits = {
  readonly cpuSeconds?: number | undefined;
  readonly memoryBytes?: number | undefined;
  readonly fileBytes?: number | undefined;
  /** Processes of the account at once. */
  readonly processes?: number | undefined;
};

const limit = (option: string, value: number | undefined): string[] =>
  value === undefined ? [] : [`ulimit -${option} ${Math.floor(value)} 2>/dev/null`];

/**
 * `-p` is the process limit of dash, `-u` that of bash; `-v` counts KiB, `-f` blocks of 512 bytes. A lower limit that is in
 * force stays.
 */
function limitScript({ cpuSeconds, memoryBytes, fileBytes, processes = MAX_PROCESSES }: CommandLimits): string[] {
  const count = Math.floor(processes);
  return [
    'ulimit -c 0',
    `ulimit -p ${count} 2>/dev/null || ulimit -u ${count} 2>/dev/null`,
    // The soft limit tells a program by SIGXCPU; the hard one ends one that goes on.
    ...limit('Ht', cpuSeconds === undefined ? undefined : cpuSeconds + 2),
    ...limit('St', cpuSeconds),
    ...limit('v', memoryBytes === undefined ? undefined : memoryBytes / 1024),
    ...limit('f', fileBytes === undefined ? undefined : fileBytes / 512),
  ];
}

/**
 * Starts the bridge and waits until its output ends, which it closes when the way out is open; then nothing of the
 * channel is left for the command.
 */
const BRIDGED = `"${BRIDGE.node}" "${BRIDGE.script}" </dev/null || exit 126; exec ${BRIDGE_FD}>&-; unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE`;

/** Descriptor whose other end only the starter of a guarded command holds. */
export const WATCH_FD = 3;

/**
 * Ends the process group of the shell when the other side of WATCH_FD is closed. `$$` is the number of the group also after
 * its leader ended, because the watcher is in it. The watcher is no child of the command, which may wait for all of its own.
 */
const WATCHED = `( ( read -r _ <&${WATCH_FD}; kill -KILL -$$ ) >/dev/null 2>&1 & ); exec ${WATCH_FD}<&-`;

/** Says that the shell is there, waits for a line, and ends when the other side of the channel does. */
const HELD = `echo >&${HOLD_FD} && read -r _ <&${HOLD_FD} || exit 126; exec ${HOLD_FD}>&-`;

export type CommandStart = {
  /** The way out of `networked` is opened over BRIDGE_FD first. */
  readonly bridged?: boolean;
  /** The command waits for a line on HOLD_FD. */
  readonly held?: boolean;
  readonly limits?: CommandLimits | undefined;
};

/** The command below its limits. It is passed as arguments and never becomes part of a script of ours. */
export function limitedCommand(
  command: readonly string[],
  { bridged = false, held = false, limits = {} }: CommandStart = {},
): readonly string[] {
  const script = [...limitScript(limits), ...(bridged ? [BRIDGED] : []), ...(held ? [HELD] : []), 'exec "$@"'].join(
    '; ',
  );
  return ['/bin/sh', '-c', script, 'sh', ...command];
}

/** The command below its limits, as the leader of a process group that ends with the other side of WATCH_FD. */
export const guardedCommand = (command: readonly string[], limits: CommandLimits = {}): readonly string[] => [
  ...['/bin/sh', '-c', [...limitScript(limits), WATCHED, 'exec "$@"'].join('; '), 'sh'],
  ...command,
];
