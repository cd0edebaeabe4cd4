import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./rebinding-world.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;

/** Runs the script of the same name in a network of its own, where a public address is at hand; gives what it found. */
export function openRebindingWorld(): unknown {
  const drop = isRoot ? ['/usr/bin/setpriv', '--reuid=61184', '--regid=61184', '--clear-groups', '--'] : [];
  const world = ['/usr/bin/unshare', '--user', '--map-root-user', '--net', '/bin/sh', '-c'];
  const network = 'ip link set lo up && ip addr add 93.184.216.34/32 dev lo && exec "$@"';
  const command: string[] = [...drop, ...world, network, 'sh', process.execPath, SCRIPT];
  const [program = '', ...args] = command;
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', timeout: 25_000, cwd: '/' });
  return stdout === '' ? stderr : JSON.parse(stdout);
}
