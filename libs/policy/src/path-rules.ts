import { isInside, normalisePath, type PathGlob } from '@countersign/patterns';
import { UNKNOWN } from './bash/words.ts';
import type { PathRule, PathRules } from './rule-index.ts';
import type { Facts, Finding } from './types.ts';

const hasLinks = (realpaths: Facts['realpaths']): boolean => {
  for (const path in realpaths) if (Object.hasOwn(realpaths, path)) return true;
  return false;
};

/** The real path that the host reported, following links in parent directories too. */
export function realPath(path: string, facts: Facts): string {
  if (!hasLinks(facts.realpaths)) return path;
  const seen = new Set<string>();
  let current = path;
  for (let hop = 0; hop < 40; hop++) {
    if (seen.has(current)) return current;
    seen.add(current);
    let head = current;
    for (;;) {
      if (Object.hasOwn(facts.realpaths, head) && facts.realpaths[head] !== head) break;
      if (head === '/' || head === '') return current;
      head = head.slice(0, head.lastIndexOf('/')) || '/';
    }
    current = normalisePath(
      (facts.realpaths[head] ?? head) + current.slice(head === '/' ? 0 : head.length),
      '/',
      facts.home,
    );
  }
  return current;
}

/** Whether a deny or ask rule speaks about a path, in either spelling. */
function matchesEither(entry: PathRule, path: string, real: string, facts: Facts, removes: boolean): boolean {
  const glob = entry.glob;
  if (glob === undefined) return true;
  if (glob.matchesTight(path, facts.caseInsensitive) || glob.matchesTight(real, facts.caseInsensitive)) return true;
  const prefix = glob.literalPrefix;
  return removes && !glob.baseOnly && prefix !== '/' && (isInside(prefix, path) || isInside(prefix, real));
}

/** Whether an allow rule covers a path; both spellings must match, base names only inside the project. */
function allowCovers(entry: PathRule, path: string, real: string, facts: Facts): boolean {
  const glob = entry.glob;
  if (glob === undefined) return true;
  if (glob.baseOnly && !(isInside(path, facts.project) && isInside(real, facts.project))) return false;
  return glob.matches(path) && glob.matches(real);
}

const WILD = /[\uffff*?[\]]/;

/** Whether two glob segments could name the same file, judged by their literal ends. */
function segmentsMayMeet(a: string, b: string): boolean {
  const head = (s: string): string => (WILD.test(s) ? s.slice(0, s.search(WILD)) : s);
  const tail = (s: string): string => s.slice(Math.max(...['\uffff', '*', '?', ']'].map((c) => s.lastIndexOf(c))) + 1);
  const nested = (x: string, y: string, fits: (p: string, q: string) => boolean): boolean => fits(x, y) || fits(y, x);
  if (!WILD.test(a) && !WILD.test(b)) return a === b;
  return nested(head(a), head(b), (x, y) => x.startsWith(y)) && nested(tail(a), tail(b), (x, y) => x.endsWith(y));
}

/** Whether a shell glob, whose directories are visible, could meet a rule. */
function globMayMeet(glob: PathGlob, text: string, cwd: string, facts: Facts): boolean {
  const fold = (s: string): string => (facts.caseInsensitive ? s.toLowerCase() : s);
  const segments = fold(normalisePath(text, cwd, facts.home))
    .split('/')
    .slice(1);
  if (glob.baseOnly) return segmentsMayMeet(segments.at(-1) ?? '', fold(glob.source));
  const prefix = fold(glob.literalPrefix).split('/').slice(1);
  return (
    glob.literalPrefix === '/' || prefix.every((s, i) => segments[i] === undefined || segmentsMayMeet(segments[i], s))
  );
}

/** Whether an unresolved word could lie under a rule. */
function couldLieUnder(entry: PathRule, text: string, cwd: string | undefined, facts: Facts): boolean {
  const glob = entry.glob;
  if (glob === undefined || cwd === undefined) return true;
  if (!text.includes(UNKNOWN) && !text.includes('..')) return globMayMeet(glob, text, cwd, facts);
  const at = text.search(/[\uffff*?[]/);
  const head = at === -1 ? text : text.slice(0, at);
  if (head === '' || text.includes('..')) return true;
  const slash = head.lastIndexOf('/');
  const tail = text.slice(text.lastIndexOf('/') + 1);
  if (glob.baseOnly) return !/^[^\uffff*?[]+$/.test(tail) || glob.matches(`/${tail}`);
  if (slash === -1) return !/^\/tmp(\/|$)/.test(glob.literalPrefix) || isInside('/tmp', facts.project);
  const dir = normalisePath(head.slice(0, slash) || '/', cwd, facts.home);
  return isInside(glob.literalPrefix, dir) || isInside(dir, glob.literalPrefix);
}

/** Deny and ask findings for one path. `removes`: an ancestor of what a rule names counts too. */
export function judgePath(
  rules: PathRules,
  text: string,
  cwd: string | undefined,
  facts: Facts,
  what: string,
  removes = false,
): Finding[] {
  const out: Finding[] = [];
  if (rules.tight.length === 0) return out;
  const relative = !text.startsWith('/') && !text.startsWith('~');
  if (text.includes(UNKNOWN) || /[*?[]/.test(text) || (relative && cwd === undefined)) {
    for (const r of rules.tight)
      if (couldLieUnder(r, text, cwd, facts))
        out.push({
          effect: 'ask',
          kind: 'possible',
          text: `${what} \`${show(text)}\` is unresolved and could match the ${r.rule.label}`,
          rule: r.rule,
        });
    if (text.includes(UNKNOWN) || (relative && cwd === undefined)) return out;
  }
  const path = normalisePath(text, cwd ?? facts.cwd, facts.home);
  const real = realPath(path, facts);
  for (const r of removes ? rules.tight : rules.near(path, real))
    if (matchesEither(r, path, real, facts, removes))
      out.push({
        effect: r.rule.effect === 'deny' ? 'deny' : 'ask',
        kind: 'rule',
        text: `${what} \`${path}\` matches the ${r.rule.label}`,
        rule: r.rule,
      });
  return out;
}

/** Whether an allow rule covers a path. */
export const isAllowed = (rules: PathRules, path: string, real: string, facts: Facts): boolean =>
  rules.allowsNear(path).some((r) => allowCovers(r, path, real, facts));

/** A text for a reason, with unknown pieces made visible. */
export const show = (text: string): string => text.replaceAll(UNKNOWN, '‹unresolved›').slice(0, 300);
