// Dependency-free (Node >= 20): what both README commands need before anything of ours can run.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { installPlan, unverified } from './install-plan.mjs';

/** Folder of the installation. */
export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const binaries = path.join(root, 'node_modules', '.bin');

/** Environment in which the pinned Node and the installed tools come first. */
export const environment = { ...process.env, PATH: `${binaries}${path.delimiter}${process.env.PATH ?? ''}` };

function stop(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function run(command, args) {
  const { status, error } = spawnSync(command, args, { cwd: root, env: environment, stdio: 'inherit' });
  if (error || status !== 0)
    stop(`\`${[command, ...args].join(' ')}\` failed; mend what it says above and start again`);
}

/** Runs one step and ends this process with its exit code when it fails. */
export function step(command, args) {
  process.stdout.write(`> ${[command, ...args].join(' ')}\n`);
  const { status } = spawnSync(command, args, { cwd: root, env: environment, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

function installPackages() {
  const lock = path.join(root, 'package-lock.json');
  const installed = path.join(root, 'node_modules', '.package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  process.stdout.write('installing npm packages from package-lock.json (about a minute)\n');
  run('npm', ['ci', '--loglevel=error']);
}

/** The pinned Node of the lock file; an optional package can be left out in silence, so it is looked at. */
export function pinnedNode() {
  const own = path.join(binaries, 'node');
  const found = existsSync(own) ? own : process.execPath;
  const version = spawnSync(found, ['--version'], { encoding: 'utf8' }).stdout?.trim() ?? '';
  if (Number(/^v(\d+)/.exec(version)?.[1] ?? 0) >= 24) return found;
  return stop(
    `Node 24 is needed and ${version || 'none'} was found; run \`npm ci --include=optional\` or install Node 24`,
  );
}

async function agreed(command) {
  if (!process.stdin.isTTY) return true;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question(`run \`${command}\`? [Y/n] `);
  terminal.close();
  return answer.trim() === '' || /^y(es)?$/i.test(answer.trim());
}

function facts() {
  const { platform, arch } = process;
  const isRoot = process.getuid?.() === 0;
  const sudoWithoutPassword = () => spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0;
  const debian = '/etc/debian_version';
  const debianVersion = existsSync(debian) ? readFileSync(debian, 'utf8') : '';
  return { platform, arch, isRoot, sudoWithoutPassword, debianVersion, exists: existsSync };
}

async function installPrograms(known) {
  const { missing, shown, commands, mayInstall } = installPlan(known);
  if (missing.length === 0) return;
  const names = missing.join(' and ');
  if (!mayInstall) stop(`${names} missing; install with\n  ${shown}\nand start again`);
  process.stdout.write(`${names} missing; to install: ${shown}\n`);
  if (!(await agreed(shown))) stop('not installed; run the command above yourself and start again');
  for (const [command, ...args] of commands) run(command, args);
}

/** Installs what is missing, with `forTests` also what only the tests need. Ends the process with the exact command where it may not install. */
export async function prepare({ forTests = false } = {}) {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < 20) stop(`Node 20 or newer is needed to begin; this is ${process.versions.node}`);
  const known = { ...facts(), forTests };
  const warning = unverified(known);
  if (warning !== undefined) process.stdout.write(`note: ${warning}\n`);
  installPackages();
  pinnedNode();
  await installPrograms(known);
}
