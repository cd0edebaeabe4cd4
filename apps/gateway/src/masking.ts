const MASK = '‹masked›';

/**
 * Where secrets stand in commands and headers: assignments with a telling name, authorization values, user info of URLs,
 * `-u user:password`, `-ppassword`, and tokens of well-known form.
 */
const RULES: readonly (readonly [RegExp, string])[] = [
  [
    /\b([A-Za-z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Za-z0-9_]*\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"';&|]+)/gi,
    `$1${MASK}`,
  ],
  [/\b(authorization\s*:\s*(?:bearer|basic|token)?\s*)[^\s"']+/gi, `$1${MASK}`],
  [/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@"']+@/gi, `$1${MASK}@`],
  [/((?:^|\s)(?:-u|--user)[\s=]+)("[^"]*"|'[^']*'|\S+)/g, `$1${MASK}`],
  [/(\b(?:mysql|mysqldump|mariadb|psql|sshpass)\b[^|;&]*?\s-p)(?=\S)("[^"]*"|'[^']*'|\S+)/g, `$1${MASK}`],
  [/\b(?:sk|pk|ghp|gho|ghs|xox[abp]|glpat|AKIA)[-_A-Za-z0-9]{12,}\b/g, MASK],
  [/\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/g, MASK],
];

const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text for rows, lists, events and logs: secrets masked, control and direction-changing characters escaped. */
export function maskText(text: string): string {
  const masked = RULES.reduce((current, [pattern, replacement]) => current.replace(pattern, replacement), text);
  return masked.replace(CONTROL, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** One masked line of at most 400 characters; the cut is counted. */
export function maskLine(text: string): string {
  const masked = maskText(text);
  return masked.length <= 400 ? masked : `${masked.slice(0, 400)}… (${masked.length - 400} more)`;
}
