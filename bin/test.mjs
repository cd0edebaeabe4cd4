#!/usr/bin/env node
// Installs what is missing, then runs lint, import law, types and tests with the pinned Node.
import { prepare, step } from './prepare.mjs';

await prepare({ forTests: true });
step('biome', ['check', '.']);
step('node', ['--disable-warning=ExperimentalWarning', 'tools/check-workspace.ts']);
step('buf', ['lint', 'libs/protocol']);
step('buf', ['breaking', 'libs/protocol', '--against', 'libs/protocol/released.binpb']);
step('nx', ['run-many', '-t', 'typecheck', '--output-style=static']);
step('tsc', ['-p', 'tools/tsconfig.json', '--noEmit']);
step('vitest', ['run', ...process.argv.slice(2)]);
