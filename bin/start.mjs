#!/usr/bin/env node
// Installs what is missing, builds the desk's page, then hands over to the pinned Node.
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { handOver } from './hand-over.mjs';
import { prepare, root, step } from './prepare.mjs';

/** True when the built page is newer than everything it was made of. */
function deskIsBuilt() {
  const desk = path.join(root, 'apps/desk');
  const page = path.join(desk, 'dist/index.html');
  if (!existsSync(page)) return false;
  const built = statSync(page).mtimeMs;
  const sources = readdirSync(path.join(desk, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
  return [...sources, path.join(desk, 'index.html'), path.join(desk, 'vite.config.ts')].every(
    (file) => statSync(file).mtimeMs <= built,
  );
}

await prepare();
if (!deskIsBuilt()) step('npm', ['run', '--silent', 'build', '-w', '@countersign/desk']);
handOver(['start', ...process.argv.slice(2)]);
