import { couldBeShortName, fromWindowsPath } from './windows-path.ts';

/** Where relative and home-relative paths are anchored. */
export interface PathBase {
  readonly project: string;
  readonly cwd: string;
  readonly home: string;
  /** `win32` or `windows` parts names at backslashes. */
  readonly platform?: string;
}

/** A compiled path pattern, matched against absolute normalised paths. */
export interface PathGlob {
  readonly source: string;
  readonly baseOnly: boolean;
  /** Absolute directory before the first wildcard segment; `/` when the pattern floats. */
  readonly literalPrefix: string;
  /** As an allow rule sees a path: exactly. */
  matches(path: string): boolean;
  /** As deny and ask rules see it. Paths on a drive ignore case, and a short name counts as each name it could stand for. */
  matchesTight(path: string, ignoreCase: boolean): boolean;
}

/** Something that normalising would change. */
const UNSETTLED = /\/\.{0,2}(?:\/|$)/;

/** Joins and normalises lexically: `.` and `..` are resolved, doubled slashes removed, drives become `/c:`. */
export function normalisePath(given: string, cwd: string, home: string): string {
  const path = fromWindowsPath(given, false);
  let full = path;
  if (path === '~' || path.startsWith('~/')) full = home + path.slice(1);
  else if (!path.startsWith('/')) full = `${cwd}/${path}`;
  if (full.startsWith('/') && !UNSETTLED.test(full)) return full;
  const out: string[] = [];
  for (const part of full.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') out.pop();
    else out.push(part);
  }
  return `/${out.join('/')}`;
}

/** Whether `path` is `directory` or lies below it. Both are normalised. */
export const isInside = (path: string, directory: string): boolean =>
  directory === '/' || path === directory || path.startsWith(`${directory}/`);

function matchSegment(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  let star = -1;
  let mark = 0;
  while (t < text.length) {
    const c = pattern[p];
    if (c === '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.length && (c === '?' || c === text[t])) {
      p++;
      t++;
    } else if (star !== -1) {
      p = star + 1;
      t = ++mark;
    } else return false;
  }
  while (pattern[p] === '*') p++;
  return p === pattern.length;
}

const fits = (segment: string, name: string, shortNames: boolean): boolean =>
  matchSegment(segment, name) || (shortNames && name.includes('~') && couldBeShortName(name, segment));

function matchSegments(pattern: readonly string[], path: readonly string[], shortNames: boolean): boolean {
  let row = new Array<boolean>(path.length + 1).fill(false);
  row[0] = true;
  for (const segment of pattern) {
    const next = new Array<boolean>(path.length + 1).fill(false);
    if (segment === '**') {
      let seen = false;
      for (let i = 0; i <= path.length; i++) {
        seen ||= row[i] === true;
        next[i] = seen;
      }
    } else
      for (let i = 0; i < path.length; i++) if (row[i] && fits(segment, path[i] ?? '', shortNames)) next[i + 1] = true;
    row = next;
  }
  return row[path.length] === true;
}

const segmentsOf = (path: string): string[] => path.split('/').filter((s) => s !== '');

/** The name of a path on a Windows host, which ignores case and may be given by short names. */
const ON_DRIVE = /^\/(?:[a-z]|unc):\//;

/** Compiles a path pattern. A pattern without `/` matches base names at any depth. */
export function compilePathGlob(source: string, base: PathBase): PathGlob {
  const given = fromWindowsPath(source, /^win/i.test(base.platform ?? ''));
  const baseOnly = !given.includes('/') && given !== '~';
  const absolute = baseOnly ? `/**/${given}` : normalisePath(given, base.project, base.home);
  const segments = segmentsOf(absolute);
  const wild = segments.findIndex((s) => /[*?]/.test(s));
  const prefix = baseOnly ? '/' : `/${(wild === -1 ? segments : segments.slice(0, wild)).join('/')}`;
  const folded = segments.map((s) => s.toLowerCase());
  return {
    source: given,
    baseOnly,
    literalPrefix: prefix,
    matches: (path) => matchSegments(segments, segmentsOf(path), false),
    matchesTight: (path, ignoreCase) => {
      const drive = ON_DRIVE.test(path);
      return ignoreCase || drive
        ? matchSegments(folded, segmentsOf(path.toLowerCase()), drive)
        : matchSegments(segments, segmentsOf(path), false);
    },
  };
}
