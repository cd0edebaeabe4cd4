/** Where relative and home-relative paths are anchored. */
export interface PathBase {
  readonly project: string;
  readonly cwd: string;
  readonly home: string;
}

/** A compiled path pattern, matched against absolute normalised paths. */
export interface PathGlob {
  readonly source: string;
  readonly baseOnly: boolean;
  /** Absolute directory before the first wildcard segment; `/` when the pattern floats. */
  readonly literalPrefix: string;
  matches(path: string, ignoreCase?: boolean): boolean;
}

/** Joins and normalises lexically: `.` and `..` are resolved, doubled slashes removed. */
export function normalisePath(path: string, cwd: string, home: string): string {
  let full = path;
  if (path === '~' || path.startsWith('~/')) full = home + path.slice(1);
  else if (!path.startsWith('/')) full = `${cwd}/${path}`;
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

function matchSegments(pattern: readonly string[], path: readonly string[]): boolean {
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
    } else for (let i = 0; i < path.length; i++) if (row[i] && matchSegment(segment, path[i] ?? '')) next[i + 1] = true;
    row = next;
  }
  return row[path.length] === true;
}

const segmentsOf = (path: string): string[] => path.split('/').filter((s) => s !== '');

/** Compiles a path pattern. A pattern without `/` matches base names at any depth. */
export function compilePathGlob(source: string, base: PathBase): PathGlob {
  const baseOnly = !source.includes('/') && source !== '~' && source !== '**';
  const absolute = baseOnly ? `/**/${source}` : normalisePath(source, base.project, base.home);
  const segments = segmentsOf(absolute);
  const wild = segments.findIndex((s) => /[*?]/.test(s));
  const prefix = baseOnly ? '/' : `/${(wild === -1 ? segments : segments.slice(0, wild)).join('/')}`;
  const folded = segments.map((s) => s.toLowerCase());
  return {
    source,
    baseOnly,
    literalPrefix: prefix,
    matches: (path, ignoreCase = false) =>
      ignoreCase ? matchSegments(folded, segmentsOf(path.toLowerCase())) : matchSegments(segments, segmentsOf(path)),
  };
}
