import { createHash, randomBytes } from 'node:crypto';
import { ReviewReply, ReviewRequest } from '@countersign/protocol';
import { Slots } from '@countersign/service-kit';
import type { GuardianConfig } from '../config.ts';
import { BudgetFile } from '../limits/budget-file.ts';
import { CircuitBreaker } from '../limits/circuit-breaker.ts';
import { DenialStreaks } from '../limits/denial-streaks.ts';
import { RequestBudget } from '../limits/request-budget.ts';
import { buildPrompt, PROMPT_VERSION, type Prompt, type Question } from '../prompt/prompt.ts';
import { visibleText } from '../prompt/visible-text.ts';
import { openProvider } from '../providers/open-provider.ts';
import type { FaultCategory, Provider } from '../providers/provider.ts';
import { askProvider } from './ask-provider.ts';
import { SharedRuns } from './shared-runs.ts';
import { parseVerdict } from './verdict.ts';

const FENCE_BYTES = 12;

export type ModelCheck = {
  readonly provider: string;
  readonly model: string;
  /** Why no review can be had; undefined when one can. */
  readonly problem: string | undefined;
};

type Endpoint = { readonly provider: Provider; readonly breaker: CircuitBreaker };

type Answer = {
  readonly approve: boolean;
  readonly category: 'reviewed' | FaultCategory;
  readonly reason: string;
  readonly callHuman?: boolean;
};

/** Sums up what was sent and what came in one review. */
class Tally {
  inputTokens = 0;
  outputTokens = 0;
  readonly #prompts: string[] = [];
  readonly #answers: string[] = [];

  sent(prompt: Prompt): void {
    this.#prompts.push(JSON.stringify([prompt.system, prompt.user]));
  }

  came(answer: { readonly text: string; readonly inputTokens: number; readonly outputTokens: number }): void {
    this.#answers.push(JSON.stringify(answer.text));
    this.inputTokens += count(answer.inputTokens);
    this.outputTokens += count(answer.outputTokens);
  }

  digests(): { promptDigest: string; responseDigest: string } {
    return { promptDigest: digest(this.#prompts), responseDigest: digest(this.#answers) };
  }
}

const count = (value: unknown): number => (Number.isSafeInteger(value) ? Math.max(Number(value), 0) : 0);

const digest = (parts: readonly string[]): string =>
  parts.length === 0 ? '' : createHash('sha256').update(parts.join('\n')).digest('hex');

const failed = (category: FaultCategory, reason: string): Answer => ({
  approve: false,
  category,
  reason: `${reason}; the call was not judged unsafe`,
});

/** Reviews calls. INVARIANT: an approval is a complete verdict of a model to every question that had to be asked. */
export class Reviewer {
  readonly #config: GuardianConfig;
  readonly #endpoints: ReadonlyMap<string, Endpoint>;
  readonly #slots: Slots;
  readonly #budget: RequestBudget;
  readonly #streaks: DenialStreaks;
  readonly #running = new SharedRuns<ReviewReply>();

  /** `keys`: keys that the environment holds, by provider. Throws a FaultError for a budget file that cannot be read. */
  constructor(config: GuardianConfig, keys: ReadonlyMap<string, string> = new Map()) {
    this.#config = config;
    this.#endpoints = new Map(
      config.providers.map((entry) => [
        entry.name,
        { provider: openProvider(entry, keys.get(entry.name)), breaker: new CircuitBreaker(config.limits) },
      ]),
    );
    this.#slots = new Slots(config.limits.concurrent, config.limits.waiting);
    this.#budget = new RequestBudget(
      config.limits,
      config.stateFile === undefined ? undefined : new BudgetFile(config.stateFile),
    );
    this.#streaks = new DenialStreaks(config.limits.denialsInRow);
  }

  /** The model that reviews for a session of this model, and whether it can. Asks no model. */
  checkModel(asked: { readonly provider: string; readonly model: string }): ModelCheck {
    const { provider, model } = this.#config.pin ?? asked;
    const known = this.#endpoints.get(provider);
    const none = this.#endpoints.size === 0 ? 'no provider is configured' : undefined;
    const unknown = `provider \`${visibleText(provider.slice(0, 128))}\` is not configured`;
    return { provider, model, problem: none ?? (known ? known.provider.problem(model) : unknown) };
  }

  /** Ends the pause of a session; false when there was none. */
  resume(sessionId: string): boolean {
    return this.#streaks.resume(sessionId);
  }

  /**
   * One review. Never rejects; `callerLeft` ends it early. A call that is being reviewed already is not reviewed again: a second
   * gateway that took a resend of it gets the same reply, and it counts once in budgets and rows of denials.
   */
  review(request: ReviewRequest, callerLeft: AbortSignal): Promise<ReviewReply> {
    const key = createHash('sha256').update(ReviewRequest.encode(request).finish()).digest('hex');
    return this.#running.join(key, callerLeft, (left) => this.#reviewOnce(request, left));
  }

  async #reviewOnce(request: ReviewRequest, callerLeft: AbortSignal): Promise<ReviewReply> {
    const startMs = Date.now();
    const check = this.checkModel(request);
    const tally = new Tally();
    const answer = await this.#answer(request, check, tally, callerLeft).catch(() =>
      failed('unavailable', 'the review failed'),
    );
    return ReviewReply.fromPartial({
      approve: answer.approve,
      reason: answer.reason,
      category: answer.category,
      provider: check.provider,
      model: check.model,
      promptVersion: PROMPT_VERSION,
      latencyMs: BigInt(Math.max(Date.now() - startMs, 0)),
      inputTokens: BigInt(tally.inputTokens),
      outputTokens: BigInt(tally.outputTokens),
      ...tally.digests(),
      callHuman: answer.callHuman ?? false,
    });
  }

  async #answer(request: ReviewRequest, check: ModelCheck, tally: Tally, callerLeft: AbortSignal): Promise<Answer> {
    const endpoint = this.#endpoints.get(check.provider);
    if (check.problem !== undefined || !endpoint)
      return failed('misconfigured', check.problem ?? 'no provider is configured');
    if (!request.advisory && this.#streaks.paused(request.sessionId)) {
      const reason = 'reviews of this session are paused after repeated denials; a person must look';
      return { ...failed('unavailable', reason), callHuman: true };
    }
    const { deadlineMs } = this.#config;
    const deadlineAtMs = Date.now() + deadlineMs;
    const signal = AbortSignal.any([AbortSignal.timeout(deadlineMs), callerLeft]);
    const place = await this.#slots.take(signal);
    if (place === 'full') return failed('unavailable', 'too many reviews are waiting');
    if (place === 'aborted') return failed('timed_out', `no place for a review within ${deadlineMs} ms`);
    try {
      const ask = (question: Question) =>
        this.#ask(question, { request, model: check.model, endpoint, tally, signal, callerLeft, deadlineAtMs });
      const first = await ask('call');
      const second = this.#config.identityJudge || request.identityJudge;
      const answer = first.approve && second ? await ask('identity') : first;
      return request.advisory ? answer : this.#noted(request.sessionId, answer);
    } finally {
      place();
    }
  }

  #noted(sessionId: string, answer: Answer): Answer {
    if (answer.category !== 'reviewed') return answer;
    this.#streaks.record(sessionId, answer.approve);
    return { ...answer, callHuman: this.#streaks.paused(sessionId) };
  }

  async #ask(
    question: Question,
    review: {
      readonly request: ReviewRequest;
      readonly model: string;
      readonly endpoint: Endpoint;
      readonly tally: Tally;
      readonly signal: AbortSignal;
      readonly callerLeft: AbortSignal;
      readonly deadlineAtMs: number;
    },
  ): Promise<Answer> {
    const { request, tally } = review;
    const { prompt, complete } = buildPrompt(request, question, randomBytes(FENCE_BYTES).toString('hex'));
    // SECURITY: nobody approves arguments that the model was not shown.
    if (!complete)
      return { ...failed('unavailable', 'the call is too long to be shown to the reviewer'), callHuman: true };
    tally.sent(prompt);
    const asked = await askProvider({
      ...review.endpoint,
      budget: this.#budget,
      tries: this.#config.tries,
      sessionId: request.sessionId,
      advisory: request.advisory,
      model: review.model,
      prompt,
      signal: review.signal,
      callerLeft: review.callerLeft,
      deadlineAtMs: review.deadlineAtMs,
      deadlineMs: this.#config.deadlineMs,
    });
    if (!asked.ok) return failed(asked.error.category, asked.error.reason);
    tally.came(asked.value);
    const verdict = parseVerdict(asked.value.text);
    if (!verdict.ok) return failed('malformed', verdict.error);
    const { approve, reason } = verdict.value;
    const subject = question === 'identity' ? 'identity: ' : '';
    return { approve, category: 'reviewed', reason: `${subject}${reason}` };
  }
}
