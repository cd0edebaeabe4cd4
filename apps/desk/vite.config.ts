import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { constants, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/** Writes a compressed copy beside every text file of the build; the gateway sends it to browsers that take it. */
const compressed = (): Plugin => {
  let outDir = '';
  return {
    name: 'compressed',
    apply: 'build',
    configResolved: (config) => {
      outDir = path.resolve(config.root, config.build.outDir);
    },
    closeBundle: () => {
      for (const name of readdirSync(outDir, { recursive: true, encoding: 'utf8' })) {
        const file = path.join(outDir, name);
        if (!/\.(?:js|css|html)$/.test(file)) continue;
        writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: constants.Z_BEST_COMPRESSION }));
      }
    },
  };
};

export default defineConfig({
  plugins: [react(), compressed()],
  build: { outDir: 'dist', emptyOutDir: true, assetsInlineLimit: 0, manifest: true, target: 'es2022' },
});
