import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { err, type Result } from '@countersign/kernel';
import type { CircuitBreaker } from '../limits/circuit-breaker.ts';
import type { RequestBudget } from '../limits/request-budget.ts';
import type { Prompt } from '../prompt/prompt.ts';
import type { Completion, Provider, ProviderFault } from '../providers/provider.ts';

const FIRST_WAIT_MS = 200;

export type Asking = {
  readonly provider: Provider;
  readonly breaker: CircuitBreaker;
  readonly budget: RequestBudget;
  readonly tries: number;
  readonly sessionId: string;
  readonly advisory: boolean;
  readonly model: string;
  readonly prompt: Prompt;
  /** Aborts at `deadlineAtMs`, or before when the caller left. */
  readonly signal: AbortSignal;
  readonly callerLeft: AbortSignal;
  readonly deadlineAtMs: number;
  /** Time of the whole review. */
  readonly deadlineMs: number;
};

const unavailable = (reason: string): ProviderFault => ({ category: 'unavailable', reason, transport: false });

/** What a request says about the provider. One that got less than half of the time says nothing by being late. */
function outcomeOf(asking: Asking, asked: Result<Completion, ProviderFault>, startMs: number) {
  if (asked.ok) return 'answered';
  if (asking.callerLeft.aborted) return 'neutral';
  if (asked.error.transport) return 'fault';
  if (asked.error.category !== 'timed_out') return 'answered';
  return asking.deadlineAtMs - startMs >= asking.deadlineMs / 2 ? 'fault' : 'neutral';
}

async function tryOnce(asking: Asking): Promise<Result<Completion, ProviderFault>> {
  const { provider, breaker, budget, signal } = asking;
  if (!breaker.admit(Date.now()))
    return err(unavailable(`provider \`${provider.name}\` is left alone after repeated faults`));
  const spent = budget.spend(asking.sessionId, Date.now(), asking.advisory);
  if (spent !== undefined) {
    breaker.report('neutral', Date.now());
    return err(unavailable(spent));
  }
  const startMs = Date.now();
  const asked = await provider.complete(asking.model, asking.prompt, signal);
  breaker.report(outcomeOf(asking, asked, startMs), Date.now());
  return asked;
}

/** Waits before the try after `done`; false when the deadline leaves no time for it. */
async function waitFor(asking: Asking, done: number, fault: ProviderFault): Promise<boolean> {
  const jittered = Math.round((FIRST_WAIT_MS * 2 ** (done - 1) * (50 + randomInt(101))) / 100);
  const waitMs = Math.max(jittered, fault.retryAfterMs ?? 0);
  if (Date.now() + waitMs >= asking.deadlineAtMs) return false;
  return sleep(waitMs, true, { signal: asking.signal }).catch(() => false);
}

/**
 * One answer of a provider, with at most `tries` requests, all inside the deadline. Only transport faults are tried again,
 * after a jittered wait that is never shorter than what the endpoint asked for. The last fault is the one returned.
 */
export async function askProvider(asking: Asking): Promise<Result<Completion, ProviderFault>> {
  for (let done = 1; ; done += 1) {
    const asked = await tryOnce(asking);
    if (asked.ok || !asked.error.transport || done >= asking.tries) return asked;
    if (!(await waitFor(asking, done, asked.error))) return asked;
  }
}
