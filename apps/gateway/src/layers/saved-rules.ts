import { createHash } from 'node:crypto';
import { normalisePath } from '@countersign/patterns';
import type { Decision } from '@countersign/policy';
import { runsCommand } from '@countersign/protocol';
import type { Inspection } from '../broker/inspect.ts';
import type { ParsedCall } from '../calls/parse-call.ts';
import type { Session } from '../record/sessions.ts';
import type { StoredRule } from './stored-rule.ts';

/** A saved rule by `always` ends by itself after this time. */
export const ALWAYS_MS = 30 * 24 * 3_600_000;
/** With more rules in play all of them are named instead of those that decided. */
const MAX_TRIED = 32;
/** Most rules that one answer saves. */
const MAX_OFFERED = 16;

/** Folder in which a command would run, as policies see it; undefined for other calls. */
export function folderOf({ tool, args }: Pick<ParsedCall, 'tool' | 'args'>, project: string, home: string) {
  if (!runsCommand(tool)) return undefined;
  return typeof args.cwd === 'string' ? normalisePath(args.cwd, project, home) : project;
}

/** Rules of a session that may speak about a call: those of its folder, and those of no folder. */
export const rulesOfCall = (
  rules: readonly StoredRule[],
  call: Pick<ParsedCall, 'tool' | 'args'>,
  { project }: Session,
  home: string,
): readonly StoredRule[] => {
  const folder = folderOf(call, project, home);
  return rules.filter(({ cwd }) => cwd === undefined || cwd === folder);
};

/** True when the programs and scripts of a rule are what they were when it was saved. */
export function isUnchanged({ files }: StoredRule, { paths }: Inspection): boolean {
  return files.every((kept) => {
    const now = paths.find(({ path }) => path === kept.path);
    const digest = now?.exists ? Buffer.from(now.contentDigest).toString('hex') : '';
    return now !== undefined && digest === kept.content_digest && (now.exists ? now.realPath : '') === kept.real_path;
  });
}

/** Ids of the rules without which a call would not have been allowed. */
export function rulesThatAllow(
  rules: readonly StoredRule[],
  decideWith: (rules: readonly StoredRule[]) => Decision,
): string[] {
  if (rules.length === 0 || decideWith([]).effect === 'allow') return [];
  const ids = rules.map(({ id }) => id);
  if (rules.length > MAX_TRIED) return ids;
  const needed = rules.filter((rule) => decideWith(rules.filter((one) => one !== rule)).effect !== 'allow');
  return needed.length === 0 ? ids : needed.map(({ id }) => id);
}

/** Literal rules that `always` would save; undefined unless the engine proves that they allow this very call. */
export function alwaysOffer(
  { ruleOffer }: Decision,
  rules: readonly StoredRule[],
  decideWith: (rules: readonly StoredRule[]) => Decision,
): Decision['ruleOffer'] {
  if (ruleOffer === undefined || ruleOffer.length > MAX_OFFERED) return undefined;
  const id = `proof_${createHash('sha256').update(JSON.stringify(ruleOffer)).digest('hex')}`;
  const proof: StoredRule = {
    ...{ id, layer: 'session', session: '', principal: '', agent: '', host: '', project: '' },
    ...{ fragment: { allowRules: [...ruleOffer] }, files: [], by: '', at_ms: 0, expires_ms: null },
    ...{ from: '', state: 'active' },
  };
  return decideWith([...rules, proof]).effect === 'allow' ? ruleOffer : undefined;
}
