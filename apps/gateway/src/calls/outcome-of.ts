import type { Decision } from '@countersign/policy';
import type { StepAside } from '../broker/pull-loop.ts';
import type { Gateway } from '../context.ts';
import type { SessionChain } from '../record/sessions.ts';
import type { Evaluation } from './evaluate.ts';
import { opinionOn, reviewCall, unanswered, type Verdict } from './guardian.ts';
import { mayDecide } from './guardian-figures.ts';
import { keepOpinion } from './guardian-opinions.ts';
import type { ParsedCall } from './parse-call.ts';

/** A call of a session with the engine's answer. */
export type Judgement = { readonly found: SessionChain; readonly call: ParsedCall; readonly evaluation: Evaluation };

/** What comes of a call before anybody is asked. */
export type Outcome = {
  readonly effect: 'allow' | 'ask' | 'deny';
  readonly decidedBy: string;
  readonly name: string;
  readonly reasons: readonly string[];
  /** Category of the Guardian's review; anything but `reviewed` says nothing about the call's risk. */
  readonly reviewed?: string;
  /** What the Guardian said, whatever came of it. */
  readonly verdict?: Verdict;
};

/** What an allowance is owed to, for the record. */
function allowedBy({ decision, savedRules }: Evaluation): { decidedBy: string; name: string } {
  const [grant] = decision.usedGrants ?? [];
  if (grant !== undefined) return { decidedBy: 'grant', name: grant };
  const [rule] = savedRules;
  if (rule !== undefined) return { decidedBy: 'rule', name: rule };
  if (decision.lifts?.includes('eternal')) return { decidedBy: 'eternal', name: 'unattended mode' };
  return { decidedBy: 'mode', name: decision.lifts?.[0] ?? 'mode table' };
}

const PAUSES = 'the turn is paused until a person looked';
const ADVISES = 'the model of this session only advises; a person decides';

/** Whether this verdict is the denial that pauses the turn of its session. */
export const pausesTurn = ({ approve, failed, callHuman }: Verdict): boolean => callHuman && !approve && !failed;

/** Has the Guardian's opinion kept beside a call that waits for a person. Nobody waits for it. */
export function advise(gateway: Gateway, judgement: Judgement, known: Verdict | undefined): void {
  if (known === undefined && !gateway.policy.current.shadow) return;
  const { found, call, evaluation } = judgement;
  const { callId } = call.submit;
  gateway.opinions.offer(
    async () => {
      const verdict = known ?? (await opinionOn(gateway, found.bounded, call, evaluation));
      await keepOpinion(gateway, callId, verdict);
    },
    (error) => gateway.logger.warn({ err: error, call: callId }, 'an opinion was not kept'),
  );
}

/** Whether the Guardian may lift this ask. SECURITY: one of no known kind is a person's. */
function mayBeReviewed({ askKinds, review }: Decision): boolean {
  const byGuardian = review?.reviewer === 'guardian';
  return (
    askKinds.length > 0 &&
    askKinds.every((kind) => kind === 'table' || kind === 'risky' || (kind === 'rule' && byGuardian))
  );
}

/** What comes of the engine's answer in this session's approval mode. */
export async function outcomeOf(
  gateway: Gateway,
  { found, call, evaluation }: Judgement,
  aside: StepAside,
): Promise<Outcome> {
  const { decision } = evaluation;
  if (decision.effect === 'deny')
    return {
      effect: 'deny',
      decidedBy: 'rule',
      name: decision.decidingRules[0] ?? 'mode table',
      reasons: decision.reasons,
    };
  if (decision.effect === 'allow') return { effect: 'allow', ...allowedBy(evaluation), reasons: decision.reasons };
  if (found.bounded.approval_mode !== 'auto' || !mayBeReviewed(decision)) {
    return { effect: 'ask', decidedBy: '', name: '', reasons: decision.reasons };
  }
  const reviewing = aside(() => reviewCall(gateway, found.bounded, call, evaluation));
  const verdict = reviewing ? await reviewing : unanswered('too many reviews are waiting');
  if (!verdict.failed && !(await mayDecide(gateway, verdict.version)))
    return { effect: 'ask', decidedBy: '', name: '', reasons: [ADVISES], verdict };
  // A denial stays one: only a review that failed is put to a person.
  if (verdict.failed && (verdict.callHuman || gateway.policy.current.onFailedReview === 'ask_human'))
    return { effect: 'ask', decidedBy: '', name: '', reasons: [verdict.reason], verdict };
  return {
    effect: verdict.approve ? 'allow' : 'deny',
    decidedBy: 'guardian',
    name: verdict.name,
    reasons: pausesTurn(verdict) ? [verdict.reason, PAUSES] : [verdict.reason],
    reviewed: verdict.category,
    verdict,
  };
}
