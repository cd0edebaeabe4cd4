import path from 'node:path';
import { importsOf, type SourceFile, type Violation, violationAt } from './source-file.ts';
import type { WorkspacePackage, WorkspaceTree } from './tree.ts';

const SCOPE = '@countersign/';
const PURE = ['kernel', 'patterns', 'policy', 'merkle', 'sandbox'];
const KITS = ['agent', 'service-kit', 'testing'];
const TESTING = 'testing';

/** Third-party packages that are pure themselves. */
const PURE_EXTERNALS = new Set(['unbash', 'yaml', 'canonicalize', 'ipaddr.js', 'tldts']);

/** Libraries of the workspace that each library may use. A library that is not listed may not exist. */
const LIBRARY_MAY_USE: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(PURE.map((name) => [name, PURE])),
  protocol: ['kernel'],
  agent: [...PURE, 'protocol'],
  'service-kit': [...PURE, 'protocol'],
  testing: [...PURE, 'protocol', 'service-kit'],
};

/** What an app may not reach although apps use libraries. */
const APP_MAY_NOT_USE: Readonly<Record<string, readonly string[]>> = {
  'sandbox-runner': [`${SCOPE}policy`, 'kysely', 'pg'],
  gateway: ['kysely', 'pg'],
  guardian: [`${SCOPE}policy`, 'kysely', 'pg'],
  desk: [...KITS, 'policy', 'patterns', 'sandbox'].map((name) => `${SCOPE}${name}`),
};

/** True for the libraries whose code has no effects. */
export const isPure = (owner: WorkspacePackage): boolean => owner.kind === 'lib' && PURE.includes(shortName(owner));

const shortName = (owner: WorkspacePackage): string => owner.name.replace(SCOPE, '');

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

function judgeRelative(owner: WorkspacePackage, file: SourceFile, specifier: string): string | undefined {
  const target = path.posix.join(path.posix.dirname(file.path), specifier);
  const inside = target.startsWith(`${owner.folder}/`);
  return inside ? undefined : `\`${specifier}\` leaves the package; import the other package by its name`;
}

function judgeWorkspace(owner: WorkspacePackage, file: SourceFile, specifier: string, target: WorkspacePackage) {
  const name = shortName(target);
  if (target.kind === 'app') return `an app is imported by nobody: \`${specifier}\``;
  if (!target.entries.includes(specifier)) return `\`${specifier}\` is not in the \`exports\` of ${target.name}`;
  if (target === owner) return `\`${specifier}\` is the package itself; import the file`;
  if (name === TESTING) return file.isTest ? undefined : `\`${specifier}\` may be imported from tests only`;
  if (owner.kind === 'app') return undefined;
  const allowed = LIBRARY_MAY_USE[shortName(owner)] ?? [];
  return allowed.includes(name) ? undefined : `${owner.name} may not import \`${specifier}\``;
}

function judgeExternal(owner: WorkspacePackage, file: SourceFile, specifier: string): string | undefined {
  if (file.isTest || !isPure(owner) || PURE_EXTERNALS.has(packageOf(specifier))) return undefined;
  return `a pure library may not import \`${specifier}\``;
}

function judge(
  tree: WorkspaceTree,
  owner: WorkspacePackage,
  file: SourceFile,
  specifier: string | undefined,
): string | undefined {
  if (specifier === undefined) {
    return isPure(owner) && !file.isTest ? 'a pure library may not compute what it imports' : undefined;
  }
  if (specifier.startsWith('.')) return judgeRelative(owner, file, specifier);
  if (specifier.startsWith('/') || specifier.startsWith('file:')) return `\`${specifier}\` is a path of one machine`;
  const forbidden = owner.kind === 'app' ? (APP_MAY_NOT_USE[shortName(owner)] ?? []) : [];
  const name = packageOf(specifier);
  if (forbidden.includes(name)) return `${owner.name} may not import \`${specifier}\``;
  if (!specifier.startsWith(SCOPE)) return judgeExternal(owner, file, specifier);
  const target = tree.packages.find((candidate) => candidate.name === name);
  return target ? judgeWorkspace(owner, file, specifier, target) : `\`${specifier}\` is no package of the workspace`;
}

function untagged({ kind, folder, name }: WorkspacePackage): Violation[] {
  const known = kind === 'app' || Object.hasOwn(LIBRARY_MAY_USE, name.replace(SCOPE, ''));
  return known ? [] : [{ path: folder, line: 1, message: `${name} has no place in the import law; give it one` }];
}

/** Imports that the rooms do not allow. */
export function importViolations(tree: WorkspaceTree): Violation[] {
  return tree.packages.flatMap((owner) => [
    ...untagged(owner),
    ...owner.files.flatMap((file) =>
      importsOf(file).flatMap(({ specifier, start }) => {
        const message = judge(tree, owner, file, specifier);
        return message === undefined ? [] : [violationAt(file, start, message)];
      }),
    ),
  ]);
}

function usedPackages(tree: WorkspaceTree, owner: WorkspacePackage): string[] {
  const imported = owner.files
    .filter((file) => !file.isTest)
    .flatMap(importsOf)
    .flatMap(({ specifier }) => (specifier === undefined ? [] : [packageOf(specifier)]));
  const names = new Set([...owner.dependencies, ...imported]);
  return tree.packages.filter(({ name }) => name !== owner.name && names.has(name)).map(({ name }) => name);
}

/** Packages that reach themselves through declared dependencies or imports. */
export function packageCycles(tree: WorkspaceTree): Violation[] {
  const uses = new Map(tree.packages.map((owner) => [owner.name, usedPackages(tree, owner)]));
  const cycleFrom = (start: string, at: string, trail: readonly string[]): readonly string[] | undefined => {
    for (const next of uses.get(at) ?? []) {
      if (next === start) return [...trail, next];
      const found = trail.includes(next) ? undefined : cycleFrom(start, next, [...trail, next]);
      if (found) return found;
    }
    return undefined;
  };
  return tree.packages.flatMap(({ name, folder }) => {
    const cycle = cycleFrom(name, name, [name]);
    return cycle ? [{ path: folder, line: 1, message: `packages use each other: ${cycle.join(' -> ')}` }] : [];
  });
}
