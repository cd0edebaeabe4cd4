#!/usr/bin/env node
// Dependency-free: installs what is missing, then runs lint, types and tests with the pinned Node.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const binaries = path.join(root, 'node_modules', '.bin');
const env = { ...process.env, PATH: `${binaries}${path.delimiter}${process.env.PATH ?? ''}` };

function run(command, args) {
  process.stdout.write(`> ${[command, ...args].join(' ')}\n`);
  const { status } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

if (!existsSync(path.join(binaries, 'vitest'))) run('npm', ['ci']);
run('biome', ['check', '.']);
run('nx', ['run-many', '-t', 'typecheck', '--output-style=static']);
run('vitest', ['run']);
