import type { CallRecord } from '@countersign/protocol';
import { z } from 'zod';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { json } from '../record/entries.ts';
import type { Verdict } from './guardian.ts';
import { compared, FIGURES, figuresKey, newFigures, readFigures } from './guardian-figures.ts';

const OPINION = 'guardian_opinion';
const MAX_TRIES = 5;
const MAX_REASON = 500;

const opinionSchema = z.object({
  call: z.string(),
  version: z.string(),
  provider: z.string(),
  model: z.string(),
  promptVersion: z.string(),
  approve: z.boolean(),
  category: z.string(),
  reason: z.string(),
  atMs: z.number(),
  /** A person's answer was counted. */
  counted: z.boolean(),
});
export type Opinion = z.infer<typeof opinionSchema>;

/** Opinions that may be asked for at once; more are not given, so that reviews that decide keep their places. */
const AT_ONCE = 4;

/** Asks for opinions beside the calls that people decide. An opinion that cannot be had is left out. */
export class OpinionDesk {
  #running = 0;

  /** Runs `ask` unless too many run; never rejects. */
  offer(ask: () => Promise<void>, failed: (error: unknown) => void): void {
    if (this.#running >= AT_ONCE) return;
    this.#running += 1;
    void ask()
      .catch(failed)
      .finally(() => {
        this.#running -= 1;
      });
  }
}

/** What a model said of a call that a person decides; undefined when none was kept. */
export async function readOpinion(gateway: Gateway, callId: string) {
  const [document] = await gateway.audit.listDocuments(OPINION, callId);
  const parsed = document && opinionSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
  return document && parsed?.success ? { opinion: parsed.data, version: document.version } : undefined;
}

/** What a person answered, as the record has it; undefined when nobody did. */
const humanAnswer = ({ decidedBy, state }: CallRecord): 'approved' | 'denied' | undefined =>
  decidedBy !== 'human' ? undefined : state === 'denied' ? 'denied' : 'approved';

const entry = (gateway: Gateway, type: string, call: string, detail: object) => ({
  id: `ent_${call}_${type}_1`,
  type,
  stream: 'guardian',
  emittedMs: BigInt(gateway.now()),
  body: json({ detail: { call, ...detail } }),
});

/**
 * Counts an opinion beside the person's answer, once. Called when either came: whichever is later finds both. Nothing happens
 * while one is missing.
 */
export async function compareWithHuman(gateway: Gateway, callId: string): Promise<void> {
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const kept = await readOpinion(gateway, callId);
    if (!kept || kept.opinion.counted) return;
    const call = await gateway.audit.getCall('', callId);
    const human = call && humanAnswer(call);
    if (!call || human === undefined) return;
    const { opinion } = kept;
    const key = figuresKey(opinion.version);
    const [before] = await readFigures(gateway, key);
    const figures = compared(
      before?.figures ?? newFigures(opinion),
      {
        call: callId,
        session: call.sessionId,
        agent: call.agent,
        queue: call.queue,
        tool: call.tool,
        summary: call.summary,
        opinion: opinion.approve ? 'approve' : 'deny',
        reason: opinion.reason,
        human,
        by: call.decidedByName,
        atMs: gateway.now(),
        failed: opinion.category !== 'reviewed',
      },
      gateway.policy.current.agreement,
    );
    const reply = await gateway.audit.append({
      entries: [
        entry(gateway, 'guardian.compared', callId, {
          version: opinion.version,
          opinion: opinion.category === 'reviewed' ? (opinion.approve ? 'approve' : 'deny') : opinion.category,
          human,
        }),
      ],
      documents: [
        { kind: OPINION, key: callId, value: json({ ...opinion, counted: true }), expectedVersion: kept.version },
        { kind: FIGURES, key, value: json(figures), expectedVersion: before?.version ?? 0n },
      ],
    });
    if (!reply.refusal) return;
  }
  gateway.logger.warn({ call: callId }, 'an opinion was not compared with the answer');
}

/** Keeps what a model said of a call that a person decides. Nothing is kept of a model that could not be asked. */
export async function keepOpinion(gateway: Gateway, callId: string, verdict: Verdict): Promise<void> {
  const { provider, model, promptVersion, version, category } = verdict;
  if (version === '' || category === 'misconfigured' || category === 'unavailable') return;
  const reason = maskText(verdict.reason).slice(0, MAX_REASON);
  const { approve } = verdict;
  const opinion: Opinion = {
    ...{ call: callId, version, provider, model, promptVersion, approve, category, reason },
    atMs: gateway.now(),
    counted: false,
  };
  const { counted: _, call: __, ...detail } = opinion;
  const reply = await gateway.audit.append({
    entries: [entry(gateway, 'guardian.opinion', callId, { ...detail, ...verdict.facts })],
    documents: [{ kind: OPINION, key: callId, value: json(opinion), expectedVersion: 0n }],
  });
  if (reply.refusal) return;
  await compareWithHuman(gateway, callId);
}
