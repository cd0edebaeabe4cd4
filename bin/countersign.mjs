#!/usr/bin/env node
// Runs the command line with the pinned Node.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { environment, pinnedNode, root } from './prepare.mjs';

const { status } = spawnSync(pinnedNode(), [path.join(root, 'apps/cli/src/main.ts'), ...process.argv.slice(2)], {
  env: environment,
  stdio: 'inherit',
});
process.exit(status ?? 1);
