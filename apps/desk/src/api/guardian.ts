import * as z from 'zod/mini';
import { change, request } from './request.ts';

const modelSchema = z.object({
  version: z.string(),
  compared: z.number(),
  agreed: z.number(),
  approvedButDenied: z.number(),
  deniedButApproved: z.number(),
  failed: z.number(),
  standing: z.enum(['deciding', 'advising']),
  recentlyCompared: z.number(),
  recentRate: z.optional(z.number()),
  proposal: z.optional(z.object({ rate: z.number(), compared: z.number() })),
});
const agreementSchema = z.object({
  shadow: z.boolean(),
  threshold: z.object({ least: z.number(), fromComparisons: z.number() }),
  models: z.array(modelSchema),
});
const disagreementSchema = z.object({
  call: z.string(),
  version: z.string(),
  summary: z.string(),
  opinion: z.enum(['approve', 'deny']),
  reason: z.string(),
  human: z.enum(['approved', 'denied']),
  by: z.string(),
  atMs: z.number(),
});
const pausedSchema = z.object({ id: z.string(), agent: z.string(), call: z.string(), pausedMs: z.number() });

export type Agreement = z.infer<typeof agreementSchema>;
export type ModelFigures = z.infer<typeof modelSchema>;
export type Disagreement = z.infer<typeof disagreementSchema>;
export type PausedTurn = z.infer<typeof pausedSchema>;
export type Standing = ModelFigures['standing'];

export const fetchAgreement = (): Promise<Agreement> => request('/v1/guardian/agreement', agreementSchema);

/** The latest calls on which a model and a person differed, newest first. */
export const fetchDisagreements = async (): Promise<Disagreement[]> =>
  (await request('/v1/guardian/disagreements', z.object({ disagreements: z.array(disagreementSchema) }))).disagreements;

/** Sessions whose turn waits for a person. */
export const fetchPaused = async (): Promise<PausedTurn[]> =>
  (await request('/v1/guardian/paused', z.object({ sessions: z.array(pausedSchema) }))).sessions;

/** Confirms a demotion, or lets a model version decide again. */
export const setStanding = (
  wish: { readonly version: string; readonly standing: Standing; readonly reason: string },
  csrf: string | undefined,
) => change('POST', '/v1/guardian/standing', z.object({ version: z.string() }), { body: wish, csrf });

/** Lets a paused turn go on. */
export const resumeTurn = (id: string, reason: string, csrf: string | undefined) =>
  change('POST', `/v1/sessions/${encodeURIComponent(id)}/resume`, z.object({ id: z.string() }), {
    body: { reason },
    csrf,
  });
