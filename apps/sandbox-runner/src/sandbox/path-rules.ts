import { lstatSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { compilePathGlob, normalisePath, type PathGlob } from '@countersign/patterns';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isInside } from '@countersign/sandbox';
import { realPathOf } from './look-up.ts';
import type { Guard } from './placeholders.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

/** Path rules split by how their matches are found. */
export type PathRules = {
  /** Absolute paths without wildcards; a rule for a whole folder is the folder. */
  readonly literal: readonly string[];
  /** Rules that are matched against the paths of the project. */
  readonly wild: readonly PathGlob[];
};

type Base = { readonly project: string; readonly home: string };

const isWild = (text: string): boolean => /[*?]/.test(text);

function literalOf(source: string, { project, home }: Base): string | undefined {
  if (!source.includes('/') && source !== '~') return undefined;
  const trunk = source.endsWith('/**') ? source.slice(0, -3) : source;
  return isWild(trunk) ? undefined : normalisePath(trunk === '' ? '/' : trunk, project, home);
}

/** Sorts rules; `project` and `home` anchor relative and `~` rules. */
export function parsePathRules(sources: readonly string[], base: Base): PathRules {
  const literal: string[] = [];
  const wild: PathGlob[] = [];
  for (const source of sources) {
    const found = literalOf(source, base);
    if (found !== undefined) literal.push(found);
    else wild.push(compilePathGlob(source, { ...base, cwd: base.project }));
  }
  return { literal, wild };
}

/** Whether a rule covers the path or a folder above it. */
export function covers(rules: PathRules, full: string): boolean {
  if (rules.literal.some((literal) => isInside(full, literal))) return true;
  if (rules.wild.length === 0) return false;
  for (let at = full; at !== '/'; at = path.dirname(at)) if (rules.wild.some((glob) => glob.matches(at))) return true;
  return false;
}

const UNREACHABLE = new Set(['ENOENT', 'ENOTDIR', 'EACCES']);

/** Folders and files to mask. A path that this account could not even look up is left out, because the look-up failed. */
export async function findMasks(paths: readonly string[]): Promise<{ folders: string[]; files: string[] }> {
  const folders: string[] = [];
  const files: string[] = [];
  for (const given of paths) {
    try {
      const real = realpathSync.native(given);
      (lstatSync(real).isDirectory() ? folders : files).push(real);
    } catch (error) {
      if (UNREACHABLE.has(errnoOf(error) ?? '')) continue;
      refuse(ERROR_CODES.sandboxUnavailable, `\`${given}\` cannot be masked (${errnoOf(error)})`);
    }
  }
  return { folders, files };
}

async function firstMissing(full: string): Promise<Guard | { readonly existing: string }> {
  let parent = '/';
  for (const name of full.split('/').filter(Boolean)) {
    const next = path.join(parent, name);
    try {
      parent = realpathSync.native(next);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return { folder: parent, names: [name] };
      if (errnoOf(error) === 'ENOTDIR' || errnoOf(error) === 'EACCES') return { existing: parent };
      throw error;
    }
  }
  return { existing: parent };
}

/** Existing write-denied paths, and guards for the first missing part of the others. */
export async function findWriteDenied(paths: readonly string[]): Promise<{ existing: string[]; guards: Guard[] }> {
  const existing: string[] = [];
  const guards: Guard[] = [];
  for (const full of paths) {
    const found = await firstMissing(full);
    if ('existing' in found) {
      const real = realPathOf(full);
      if (real) existing.push(real);
    } else guards.push(found);
  }
  return { existing, guards };
}
