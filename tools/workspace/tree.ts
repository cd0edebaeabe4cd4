import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type SourceFile, sourceFile } from './source-file.ts';

/** One workspace package and its own source files. */
export type WorkspacePackage = {
  readonly name: string;
  /** Folder relative to the root, with `/`. */
  readonly folder: string;
  readonly kind: 'lib' | 'app';
  /** Importable names: the package name itself and one per subpath of `exports`. */
  readonly entries: readonly string[];
  /** Runtime dependencies; development ones do not count for cycles. */
  readonly dependencies: readonly string[];
  readonly files: readonly SourceFile[];
};

/** Everything the checks look at. */
export type WorkspaceTree = { readonly packages: readonly WorkspacePackage[]; readonly files: readonly SourceFile[] };

const SKIPPED_FOLDERS = new Set(['node_modules', 'dist', 'gen', 'coverage']);
const SKIPPED_PATHS = new Set(['tools/escape', 'vectors']);
const SOURCE = /\.(?:[cm]?[jt]s|[jt]sx)$/;

function sourcePaths(root: string, folder: string): string[] {
  return readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const name = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) {
      const skipped = entry.name.startsWith('.') || SKIPPED_FOLDERS.has(entry.name) || SKIPPED_PATHS.has(name);
      return skipped ? [] : sourcePaths(root, name);
    }
    return entry.isFile() && SOURCE.test(entry.name) ? [name] : [];
  });
}

type Manifest = {
  readonly name: string;
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
};

function readPackage(root: string, folder: string, files: readonly SourceFile[]): WorkspacePackage {
  const manifest = JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8')) as Manifest;
  return {
    name: manifest.name,
    folder,
    kind: folder.startsWith('apps/') ? 'app' : 'lib',
    entries: Object.keys(manifest.exports ?? {}).map((key) => `${manifest.name}${key.slice(1)}`),
    dependencies: Object.keys(manifest.dependencies ?? {}),
    files: files.filter((file) => file.path.startsWith(`${folder}/`)),
  };
}

/** Reads the tree below `root`. Throws when it holds no package, so that a wrong root never passes. */
export function readTree(root: string): WorkspaceTree {
  const files = sourcePaths(root, '').map((name) => sourceFile(name, readFileSync(path.join(root, name), 'utf8')));
  const packages = ['libs', 'apps'].flatMap((parent) =>
    readdirSync(path.join(root, parent), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => readPackage(root, `${parent}/${entry.name}`, files)),
  );
  if (packages.length === 0) throw new Error(`no packages below \`${root}\``);
  return { packages, files };
}
