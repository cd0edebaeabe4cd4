#!/usr/bin/env node
// Installs what is missing, builds the desk's page, then hands over to the pinned Node.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { environment, pinnedNode, prepare, root, step } from './prepare.mjs';

await prepare();
if (!existsSync(path.join(root, 'apps/desk/dist/index.html')))
  step('npm', ['run', '--silent', 'build', '-w', '@countersign/desk']);
const child = spawn(pinnedNode(), ['apps/cli/src/main.ts', 'start', ...process.argv.slice(2)], {
  cwd: root,
  env: environment,
  stdio: 'inherit',
});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
process.on('SIGINT', () => undefined);
child.once('exit', (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
