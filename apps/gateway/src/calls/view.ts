import { Obligations, type OrderTerms, Precondition, termsDigest } from '@countersign/protocol';
import { z } from 'zod';
import { coverSchema } from '../grants/grant.ts';

const obligationsSchema = z.object({
  deny_read: z.array(z.string()),
  deny_write: z.array(z.string()),
  timeout_ms: z.number(),
  hosts: z.array(z.string()),
  environment: z.array(z.string()),
  hardened: z.boolean().optional(),
  block_private_network: z.boolean().optional(),
  /** The backend that a layer names; absent is the sandbox of the host's platform. */
  backend: z.string().optional(),
  backend_fallback: z.boolean().optional(),
});

/** What an approver decides on, kept with the call; its SHA-256 is the view digest. Texts are masked. */
export const viewSchema = z.object({
  reasons: z.array(z.string()),
  project: z.string(),
  profile: z.string(),
  realPath: z.string().optional(),
  diff: z.string().optional(),
  obligations: obligationsSchema,
  preconditions: z.array(z.object({ path: z.string(), real_path: z.string(), content_digest: z.string() })),
  /** Sessions from the root to the one that executes. */
  chain: z.array(z.string()),
  /** Present when the agent carries the call out itself, outside every sandbox of ours. */
  executor: z.literal('agent').optional(),
  /** What the agent asked to tighten, as it states. */
  tighten: z.object({ effect: z.string(), source: z.string() }).optional(),
  /** What the answers "for this session" and "always" would cover; an answer that cannot be kept is not offered. */
  offers: z.object({
    session: z.array(coverSchema).optional(),
    always: z.array(z.object({ toolName: z.string(), pattern: z.string() })).optional(),
  }),
  /** People whom the deciding rule demands; the queue may demand more. */
  approvals: z.number().optional(),
  /** Permission files that the decision stood on. */
  files: z.array(z.object({ layer: z.string(), digest: z.string(), state: z.string() })).optional(),
  /** Of a command: the folder that a saved rule would be held to. */
  cwd: z.string().optional(),
  /** Turn of the session that the call belongs to. */
  turn: z.string().optional(),
  /** Key of the agent that signed the call; absent when a person made it in the agent's name. */
  key: z.string().optional(),
});

export type View = z.infer<typeof viewSchema>;

/** Reads a stored view; undefined when there is none. Throws when it does not have the expected form. */
export const readView = (bytes: Uint8Array): View | undefined =>
  bytes.length === 0 ? undefined : viewSchema.parse(JSON.parse(new TextDecoder().decode(bytes)));

/** What the order of a call with this view may touch. */
export const orderTerms = (view: View): OrderTerms => ({
  project: view.project,
  profile: view.profile,
  obligations: Obligations.fromPartial({
    denyRead: view.obligations.deny_read,
    denyWrite: view.obligations.deny_write,
    timeoutMs: BigInt(view.obligations.timeout_ms),
    hosts: view.obligations.hosts,
    environment: view.obligations.environment,
    hardened: view.obligations.hardened ?? false,
    blockPrivateNetwork: view.obligations.block_private_network ?? false,
    backend: view.obligations.backend ?? '',
    backendFallback: view.obligations.backend_fallback ?? false,
  }),
  preconditions: view.preconditions.map((item) =>
    Precondition.fromPartial({
      path: item.path,
      realPath: item.real_path,
      contentDigest: Buffer.from(item.content_digest, 'hex'),
    }),
  ),
});

/** What the receipt of that order binds. */
export const viewTermsDigest = (view: View): Uint8Array => termsDigest(orderTerms(view));
