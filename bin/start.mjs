#!/usr/bin/env node
// Installs what is missing, builds the desk's page, then hands over to the pinned Node.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { handOver } from './hand-over.mjs';
import { prepare, root, step } from './prepare.mjs';

await prepare();
if (!existsSync(path.join(root, 'apps/desk/dist/index.html')))
  step('npm', ['run', '--silent', 'build', '-w', '@countersign/desk']);
handOver(['start', ...process.argv.slice(2)]);
