import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Gateway } from '../context.ts';

/** How many comparisons and disagreements are kept for each model version. */
export const KEPT = 100;

const disagreementSchema = z.object({
  call: z.string(),
  session: z.string(),
  agent: z.string(),
  queue: z.string(),
  tool: z.string(),
  /** Masked. */
  summary: z.string(),
  opinion: z.enum(['approve', 'deny']),
  /** Masked text of the model. */
  reason: z.string(),
  human: z.enum(['approved', 'denied']),
  by: z.string(),
  atMs: z.number(),
});

/** How the opinions of one model version stand beside the answers of people. */
export const figuresSchema = z.object({
  version: z.string(),
  provider: z.string(),
  model: z.string(),
  promptVersion: z.string(),
  compared: z.number(),
  agreed: z.number(),
  /** The model would have approved what a person denied: the dangerous way to differ. */
  approvedButDenied: z.number(),
  deniedButApproved: z.number(),
  /** Opinions that no verdict came for. */
  failed: z.number(),
  /** Agreement of the latest comparisons, oldest first. */
  recent: z.array(z.boolean()).max(KEPT),
  /** The latest, newest first. */
  disagreements: z.array(disagreementSchema).max(KEPT),
  /** `advising`: a person decides what the model would have decided. Only an operator changes it. */
  standing: z.enum(['deciding', 'advising']),
  /** Agreement fell below the threshold; an operator confirms the demotion or leaves it. */
  proposal: z.object({ rate: z.number(), compared: z.number(), atMs: z.number() }).optional(),
});

export type Figures = z.infer<typeof figuresSchema>;
export type Disagreement = z.infer<typeof disagreementSchema>;
export type Comparison = Disagreement & { readonly failed: boolean };

/** Kind of the documents that hold figures. */
export const FIGURES = 'guardian_figures';
/** Key of a model version's figures; names of models may be long. */
export const figuresKey = (version: string): string => createHash('sha256').update(version).digest('hex').slice(0, 32);

export const newFigures = (of: Pick<Figures, 'version' | 'provider' | 'model' | 'promptVersion'>): Figures => ({
  ...of,
  compared: 0,
  agreed: 0,
  approvedButDenied: 0,
  deniedButApproved: 0,
  failed: 0,
  recent: [],
  disagreements: [],
  standing: 'deciding',
});

export const rateOf = ({ recent }: Pick<Figures, 'recent'>): number | undefined =>
  recent.length === 0 ? undefined : recent.filter(Boolean).length / recent.length;

/** What an organisation asks of a model that decides. */
export type AgreementRule = { readonly least: number; readonly fromComparisons: number };

/** Figures after one more comparison. A demotion is proposed below the threshold, and the proposal falls when it is met again. */
export function compared(figures: Figures, one: Comparison, rule: AgreementRule): Figures {
  const { failed, ...facts } = one;
  if (failed) return { ...figures, failed: figures.failed + 1 };
  const agrees = (one.opinion === 'approve') === (one.human === 'approved');
  const recent = [...figures.recent, agrees].slice(-KEPT);
  const { proposal: _, ...rest } = figures;
  const next: Figures = {
    ...rest,
    compared: figures.compared + 1,
    agreed: figures.agreed + (agrees ? 1 : 0),
    approvedButDenied: figures.approvedButDenied + (!agrees && one.opinion === 'approve' ? 1 : 0),
    deniedButApproved: figures.deniedButApproved + (!agrees && one.opinion === 'deny' ? 1 : 0),
    recent,
    disagreements: agrees ? figures.disagreements : [facts, ...figures.disagreements].slice(0, KEPT),
  };
  const rate = rateOf(next) ?? 1;
  const low = next.standing === 'deciding' && recent.length >= rule.fromComparisons && rate < rule.least;
  return low ? { ...next, proposal: figures.proposal ?? { rate, compared: recent.length, atMs: one.atMs } } : next;
}

type Versioned = { readonly figures: Figures; readonly version: bigint };

/** Figures of the record; all of them without a key. */
export async function readFigures(gateway: Pick<Gateway, 'audit'>, key = ''): Promise<readonly Versioned[]> {
  const documents = await gateway.audit.listDocuments(FIGURES, key);
  return documents.flatMap(({ value, version }) => {
    const parsed = figuresSchema.safeParse(JSON.parse(new TextDecoder().decode(value)));
    return parsed.success ? [{ figures: parsed.data, version }] : [];
  });
}

/** Whether a model version may decide. One that nobody compared yet may; one whose figures cannot be read may not. */
export async function mayDecide(gateway: Pick<Gateway, 'audit'>, version: string): Promise<boolean> {
  const [document] = await gateway.audit.listDocuments(FIGURES, figuresKey(version));
  if (document === undefined) return true;
  const parsed = figuresSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
  return parsed.success && parsed.data.standing === 'deciding';
}
