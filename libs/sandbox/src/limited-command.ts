import { BRIDGE } from './bwrap-argv.ts';

const MAX_PROCESSES = 1024;

/** `-p` is the process limit of dash, `-u` that of bash. */
const LIMITS = `ulimit -c 0; ulimit -p ${MAX_PROCESSES} 2>/dev/null || ulimit -u ${MAX_PROCESSES} 2>/dev/null`;

/**
 * Starts the bridge and waits until its output ends, which it closes when the way out is open; then nothing of the
 * channel is left for the command.
 */
const BRIDGED = `"${BRIDGE.node}" "${BRIDGE.script}" </dev/null || exit 126; exec 5>&-; unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE`;

/** The command below its limits. It is passed as arguments and never becomes part of a script of ours. */
export function limitedCommand(command: readonly string[], { bridged = false } = {}): readonly string[] {
  const script = [LIMITS, ...(bridged ? [BRIDGED] : []), 'exec "$@"'].join('; ');
  return ['/bin/sh', '-c', script, 'sh', ...command];
}
