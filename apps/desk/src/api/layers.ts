import * as z from 'zod/mini';
import { change, request } from './request.ts';

const ruleSchema = z.object({
  id: z.string(),
  state: z.enum(['proposed', 'active', 'revoked']),
  says: z.array(z.string()),
  reach: z.string(),
  folder: z.optional(z.string()),
  by: z.string(),
  expiresMs: z.nullable(z.number()),
});
export type SavedRule = z.infer<typeof ruleSchema>;

const trustSchema = z.object({
  id: z.string(),
  what: z.enum(['file', 'folder']),
  host: z.string(),
  path: z.string(),
  by: z.string(),
  state: z.string(),
  digest: z.optional(z.string()),
  agent: z.optional(z.string()),
});
export type Trust = z.infer<typeof trustSchema>;

const fileSchema = z.object({
  layer: z.string(),
  digest: z.string(),
  /** Counts whole, only tightens, cannot be read, or is what an earlier version took away. */
  state: z.enum(['trusted', 'tightens', 'refused', 'held']),
  path: z.optional(z.string()),
  problem: z.optional(z.string()),
  content: z.optional(z.unknown()),
});
export type LayerFile = z.infer<typeof fileSchema>;

/** Saved rules that are proposed or in force, newest first. */
export const fetchRules = async (): Promise<readonly SavedRule[]> =>
  (await request('/v1/rules', z.object({ rules: z.array(ruleSchema) }))).rules.filter(
    ({ state }) => state !== 'revoked',
  );

/** Puts a proposed rule in force; rejects for who proposed it. */
export const publishRule = (id: string, csrf: string | undefined) =>
  change('POST', `/v1/rules/${encodeURIComponent(id)}/publish`, z.object({ state: z.string() }), { csrf, body: {} });

export const revokeRule = (id: string, csrf: string | undefined) =>
  change('DELETE', `/v1/rules/${encodeURIComponent(id)}`, z.object({ state: z.string() }), { csrf });

/** Files and folders that are trusted, newest first. */
export const fetchTrusts = async (): Promise<readonly Trust[]> =>
  (await request('/v1/trust', z.object({ trust: z.array(trustSchema) }))).trust.filter(
    ({ state }) => state === 'trusted',
  );

export const revokeTrust = (id: string, csrf: string | undefined) =>
  change('DELETE', `/v1/trust/${encodeURIComponent(id)}`, z.object({ state: z.string() }), { csrf });

/** Lets an agent open sessions in a folder; `path` is its real path. */
export const trustFolder = (
  wish: { readonly agent: string; readonly host: string; readonly path: string },
  csrf: string | undefined,
) => change('POST', '/v1/trust/folders', z.object({ id: z.string() }), { csrf, body: wish });

/** Permission files that a session is decided on. */
export const fetchLayerFiles = async (session: string): Promise<readonly LayerFile[]> =>
  (await request(`/v1/sessions/${encodeURIComponent(session)}/layers`, z.object({ files: z.array(fileSchema) }))).files;

/** Trusts the content with exactly this digest; rejects when the file is another one by now. */
export const trustFile = (
  wish: { readonly session: string; readonly layer: string; readonly digest: string },
  csrf: string | undefined,
) => change('POST', '/v1/trust/files', z.object({ id: z.string() }), { csrf, body: wish });
