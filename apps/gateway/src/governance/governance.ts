import { err, ok, type Result } from '@countersign/kernel';
import {
  type AnswerRefusal,
  type ApprovalFacts,
  type Approver,
  answerRefusal,
  answersFor,
  isEscalated,
  type QueueSource,
  type Standing,
  standingOf,
} from '@countersign/policy';
import { type CallRecord, ERROR_CODES, type ErrorCode, PasskeyAssertion } from '@countersign/protocol';
import { z } from 'zod';
import type { AdminChange } from '../access/admin-log.ts';
import { isFresh } from '../access/fresh.ts';
import { hasRole, type Principal, type Role } from '../access/principal.ts';
import { readView } from '../calls/view.ts';
import type { AuditLog } from '../record/audit-log.ts';
import type { BreakGlassReviews } from './break-glass-reviews.ts';
import type { Delegations } from './delegations.ts';
import type { PasskeyApproval } from './passkey-approval.ts';

const APPROVAL = 'approval';
const DECIDERS: readonly Role[] = ['approver', 'operator', 'admin'];
const MINUTE_MS = 60_000;
/** Shortest reason of an emergency, characters. */
const MIN_REASON = 10;

const approvalSchema = z.object({
  answers: z.array(
    z.object({
      subject: z.string(),
      at_ms: z.number(),
      /** Encoded PasskeyAssertion, base64. */
      assertion: z.base64().optional(),
    }),
  ),
  /** Assertions that the decision stands on, in the order that its receipt binds. */
  decided: z.array(z.base64()).optional(),
});
type Approval = z.infer<typeof approvalSchema>;

export type JudgedAnswer = {
  readonly approves: boolean;
  readonly reason: string;
  readonly breakGlass: boolean;
  readonly assertion?: PasskeyAssertion | undefined;
};

export type AnswerProblem = { readonly code: ErrorCode; readonly message: string };

/** What an answer leads to. */
export type Ruling = {
  /** False: the answer is recorded and the call goes on waiting. */
  readonly decides: boolean;
  /** Number of this answer among those of its call. */
  readonly attempt: string;
  /** Documents to be written with the answer; a change of them in between refuses it. */
  readonly changes: readonly AdminChange[];
  readonly standing: Standing;
  /** What the receipt of the decision binds. */
  readonly assertions: readonly PasskeyAssertion[];
  /** This answer's own assertion, for its entry. */
  readonly own: PasskeyAssertion | undefined;
  /** True when nothing but exactly what is shown can be approved: no grant, no narrowing. */
  readonly exact: boolean;
  /** For the entry: how the answer counted. */
  readonly detail: Readonly<Record<string, unknown>>;
};

/** How a waiting call stands, for whoever reads it. */
export type ApprovalStatus = {
  readonly answered: readonly string[];
  readonly missing: Standing['missing'];
  readonly escalated: boolean;
  readonly dueMs?: number;
  /** Why whoever reads it could not approve now; absent when he could. */
  readonly refusal?: string;
};

export type GovernanceOptions = {
  readonly audit: AuditLog;
  /** The rule of a queue in the present policy. */
  readonly queue: (name: string) => QueueSource | undefined;
  readonly delegations: Delegations;
  readonly passkey: PasskeyApproval;
  readonly reviews: BreakGlassReviews;
  /** The person as the directory has him now; undefined when unknown or inactive. */
  readonly person: (subject: string) => Promise<Pick<Principal, 'name' | 'roles' | 'groups'> | undefined>;
  readonly sessionOwner: (sessionId: string) => Promise<string | undefined>;
  readonly now: () => number;
};

const decodeAll = (encoded: readonly string[] = []): PasskeyAssertion[] =>
  encoded.map((text) => PasskeyAssertion.decode(new Uint8Array(Buffer.from(text, 'base64'))));

const forbidden = (message: string): Result<never, AnswerProblem> => err({ code: ERROR_CODES.forbidden, message });

/** Who may approve: queues, quorum, separation of duties, hours, escalation, delegation, emergencies. */
export class Governance {
  readonly delegations: Delegations;
  readonly passkey: PasskeyApproval;
  readonly reviews: BreakGlassReviews;
  readonly #options: GovernanceOptions;

  constructor(options: GovernanceOptions) {
    this.#options = options;
    this.delegations = options.delegations;
    this.passkey = options.passkey;
    this.reviews = options.reviews;
  }

  queue(name: string): QueueSource {
    return this.#options.queue(name) ?? {};
  }

  /**
   * Judges one person's answer on what is recorded now. INVARIANT: the ruling holds only if its `changes` are written with
   * the answer, because another answer in between changes the same document.
   */
  async judge(call: CallRecord, by: Principal, answer: JudgedAnswer): Promise<Result<Ruling, AnswerProblem>> {
    const queue = this.queue(call.queue);
    const known = await this.#approval(call.callId);
    const facts = await this.#facts(call);
    if (known.value.answers.some(({ subject }) => subject === by.name)) return forbidden('you have answered already');
    const given = await this.#people(known.value.answers.map(({ subject }) => subject));
    const answerer = await this.#approver(by);
    const refusal = answerRefusal(queue, facts, answerer, { approves: answer.approves, given });
    if (queue.passkey && answer.approves) {
      const proven = await this.passkey.verify(call, by.name, answer.assertion);
      if (!proven.ok) return proven;
    }
    if (answer.breakGlass) return this.#breakGlass(call, by, answer, { queue, refusal, known });
    if (refusal) return forbidden(refusal.message);
    const attempt = String(known.value.answers.length + 1);
    const standing = standingOf(queue, facts, [...given, answerer]);
    const decides = !answer.approves || standing.satisfied;
    const simple = decides && known.value.answers.length === 0 && !queue.passkey;
    const givers = answersFor(queue, facts, answerer);
    const detail = {
      ...(decides && answer.approves ? { counted: standing.counted } : {}),
      ...(givers.length > 0 ? { for: givers } : {}),
    };
    const own = queue.passkey && answer.approves ? answer.assertion : undefined;
    const value = this.#withAnswer(known.value, by.name, own, decides ? standing.counted : []);
    const change = { kind: APPROVAL, key: call.callId, expectedVersion: known.version, value };
    const assertions = decides && answer.approves ? decodeAll(value.decided) : [];
    const exact = queue.passkey === true;
    return ok({ decides, attempt, standing, detail, assertions, own, exact, changes: simple ? [] : [change] });
  }

  /** Assertions that the decision of a call stands on, for its order. */
  async assertionsOf(callId: string): Promise<PasskeyAssertion[]> {
    return decodeAll((await this.#approval(callId)).value.decided);
  }

  #withAnswer(
    { answers }: Approval,
    subject: string,
    assertion: PasskeyAssertion | undefined,
    counted: readonly string[],
  ): Approval {
    const encoded = assertion && Buffer.from(PasskeyAssertion.encode(assertion).finish()).toString('base64');
    const all = [
      ...answers,
      { subject, at_ms: this.#options.now(), ...(encoded === undefined ? {} : { assertion: encoded }) },
    ];
    const decided = all.flatMap((one) => (one.assertion && counted.includes(one.subject) ? [one.assertion] : []));
    return { answers: all, ...(decided.length > 0 ? { decided } : {}) };
  }

  /** Who has answered, who is missing, and why `reader` could not approve. */
  async status(call: CallRecord, reader: Pick<Principal, 'name' | 'groups'>): Promise<ApprovalStatus> {
    const queue = this.queue(call.queue);
    const facts = await this.#facts(call);
    const answered = (await this.#approval(call.callId)).value.answers.map(({ subject }) => subject);
    const given = await this.#people(answered);
    const { missing } = standingOf(queue, facts, given);
    const refusal = answerRefusal(queue, facts, await this.#approver(reader), { approves: true, given });
    return {
      answered,
      missing,
      escalated: isEscalated(queue, facts),
      ...(refusal ? { refusal: refusal.message } : {}),
      ...(queue.slaMinutes === undefined ? {} : { dueMs: facts.waitingSinceMs + queue.slaMinutes * MINUTE_MS }),
    };
  }

  /**
   * SECURITY: an emergency stands in for queue and quorum only. Who asks, or lends his authority to who asks, still may not;
   * guards, denials, freezes, ceilings and pins of the host are judged elsewhere and are not lifted.
   */
  async #breakGlass(
    call: CallRecord,
    by: Principal,
    answer: JudgedAnswer,
    {
      queue,
      refusal,
      known,
    }: { queue: QueueSource; refusal: AnswerRefusal | undefined; known: { value: Approval; version: bigint } },
  ): Promise<Result<Ruling, AnswerProblem>> {
    const rule = queue.breakGlass;
    if (!answer.approves) return forbidden('breaking glass approves; a denial needs no emergency');
    if (!rule?.groups.some((group) => by.groups.includes(group)))
      return forbidden('you may not break glass in this queue');
    if (refusal?.kind === 'excluded' || refusal?.kind === 'double') return forbidden(refusal.message);
    if (answer.reason.trim().length < MIN_REASON)
      return forbidden('breaking glass needs a reason that a reviewer understands');
    if (by.provenMs === undefined)
      return forbidden('breaking glass needs a person who signed in; a token is not enough');
    if (!isFresh(by.provenMs, this.#options.now()))
      return err({ code: ERROR_CODES.signInAgain, message: 'breaking glass needs a fresh sign-in' });
    if (await this.reviews.isOverdue(call.queue))
      return forbidden('an emergency approval of this queue has not been reviewed in time; have it reviewed first');
    const own = queue.passkey ? answer.assertion : undefined;
    const value = this.#withAnswer(known.value, by.name, own, [by.name]);
    return ok({
      decides: true,
      attempt: String(value.answers.length),
      assertions: decodeAll(value.decided),
      own,
      exact: true,
      standing: { satisfied: true, missing: [], counted: [by.name] },
      detail: { break_glass: true, review_hours: rule.reviewHours },
      changes: [
        { kind: APPROVAL, key: call.callId, expectedVersion: known.version, value },
        this.reviews.opened(call, by.name, answer.reason, rule.reviewHours),
      ],
    });
  }

  async #approval(callId: string): Promise<{ value: Approval; version: bigint }> {
    const [document] = await this.#options.audit.listDocuments(APPROVAL, callId);
    if (!document) return { value: { answers: [] }, version: 0n };
    const value = approvalSchema.parse(JSON.parse(new TextDecoder().decode(document.value)));
    return { value, version: document.version };
  }

  async #facts(call: CallRecord): Promise<ApprovalFacts> {
    const live = await this.delegations.live();
    return {
      requester: call.principal,
      requesterDelegators: live.filter(({ receiver }) => receiver === call.principal).map(({ giver }) => giver),
      sessionOwner: (await this.#options.sessionOwner(call.sessionId)) ?? call.principal,
      approvals: readView(call.view)?.approvals ?? 0,
      waitingSinceMs: Number(call.receivedMs),
      nowMs: this.#options.now(),
    };
  }

  /** People of recorded answers who may still decide, as they are now. */
  async #people(subjects: readonly string[]): Promise<Approver[]> {
    const found: Approver[] = [];
    for (const subject of subjects) {
      const person = await this.#options.person(subject);
      if (person && hasRole({ ...person, method: 'token', scopes: [] }, DECIDERS))
        found.push(await this.#approver(person));
    }
    return found;
  }

  async #approver(person: Pick<Principal, 'name' | 'groups'>): Promise<Approver> {
    const delegators: { subject: string; groups: readonly string[] }[] = [];
    for (const { giver, receiver, groups } of await this.delegations.live()) {
      if (receiver !== person.name) continue;
      const present = await this.#options.person(giver);
      // Not wider than the giver is now.
      if (present?.roles.some((role) => DECIDERS.includes(role)))
        delegators.push({ subject: giver, groups: groups.filter((group) => present.groups.includes(group)) });
    }
    return { subject: person.name, groups: person.groups, delegators };
  }
}
