const MASK = '‹masked›';

const INERT = '[A-Za-z0-9+/=_.~:@%^,!?-]';

/** An assignment to a name that tells of a secret, in a shell, a header, a flag or JSON. */
const ASSIGNED = new RegExp(
  String.raw`\b([A-Za-z0-9_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Za-z0-9_]{0,40})(["']?\s{0,8}[=:]\s{0,8}["']?)(${INERT}{4,4096})(?=["'\s;&|)]|$)`,
  'gi',
);

const BY_FORM: readonly (readonly [RegExp, string])[] = [
  [
    new RegExp(
      String.raw`\b(authorization["']?\s{0,8}:\s{0,8}["']?(?:bearer|basic|token)\s{1,8})${INERT}{4,4096}`,
      'gi',
    ),
    `$1${MASK}`,
  ],
  [/\b([a-z][a-z0-9+.-]{0,20}:\/\/[A-Za-z0-9_.~%-]{0,64}:)[A-Za-z0-9_.~%!-]{1,128}(?=@)/gi, `$1${MASK}`],
  [/\b(?:sk|pk|ghp|gho|ghs|ghu|github_pat|xox[abpr]|glpat|AKIA|ASIA)[-_A-Za-z0-9]{12,}\b/g, MASK],
  [/\beyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_-]{1,2048}\.[A-Za-z0-9_-]{1,1024}/g, MASK],
];

/** Long, of letters and digits, and no path, host or word. */
const isRandom = (value: string): boolean =>
  value.length >= 16 && /[a-z]/i.test(value) && /[0-9]/.test(value) && /^[A-Za-z0-9+=_-]+$/.test(value);

/**
 * SECURITY: a mask must not hide what a call does. Values with anything a shell would run are shown (they are not inert), so
 * are paths and addresses, and values that the same text expands again, unless they are of random form.
 */
function mayHide(name: string, value: string, expanded: ReadonlySet<string>): boolean {
  if (/^[/~.]/.test(value) || value.includes('://')) return false;
  return isRandom(value) || !expanded.has(name);
}

/** The text with values masked that are told by their name, their place or their form to be secrets. */
export function maskSecrets(text: string): string {
  const expanded = new Set(Array.from(text.matchAll(/\$\{?[!#]?([A-Za-z0-9_]+)/g), (found) => found[1] ?? ''));
  const named = text.replace(ASSIGNED, (found, name: string, between: string, value: string) =>
    mayHide(name, value, expanded) ? `${name}${between}${MASK}` : found,
  );
  return BY_FORM.reduce((current, [pattern, replacement]) => current.replace(pattern, replacement), named);
}
