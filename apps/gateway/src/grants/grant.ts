import { z } from 'zod';

/** One kind of ask that a grant answers. */
export const coverSchema = z.object({
  tool: z.string(),
  action: z.string(),
  scope: z.string(),
  /** Id of the ask rule that it answers; absent for an ask of the mode table. */
  rule: z.string().optional(),
});

/** What a person took away when he approved; later calls under the grant are held to it. */
export const narrowingSchema = z.strictObject({
  /** Of the hosts that the call may reach, those that stay. */
  hosts: z.array(z.string().min(1).max(300)).max(200).optional(),
  /** A shorter wall-clock limit, milliseconds. */
  timeoutMs: z.int().min(1).optional(),
  /** Paths that become read-only, as patterns of write rules. */
  readOnlyPaths: z.array(z.string().min(1).max(4_096)).max(64).optional(),
});
export type Narrowing = z.infer<typeof narrowingSchema>;

/** A person's word that asks like this one need no further question in this session. */
export const grantSchema = z.object({
  id: z.string(),
  /** Epoch of the ledger; a grant of another one never counts. */
  epoch: z.number(),
  session: z.string(),
  agent: z.string(),
  principal: z.string(),
  host: z.string(),
  queue: z.string(),
  covers: z.array(coverSchema).min(1).max(16),
  given_by: z.string(),
  given_ms: z.number(),
  expires_ms: z.number(),
  /** Call on whose question it was given. */
  call: z.string(),
  narrow: narrowingSchema.optional(),
});
export type LiveGrant = z.infer<typeof grantSchema>;
export type Cover = z.infer<typeof coverSchema>;

/** One line that tells what a cover reaches. */
export function coverText({ tool, action, scope, rule }: Cover): string {
  const what =
    action === 'execute' ? `\`${tool}\` in \`${scope.replace(' :: ', '` running `')}\`` : `${action} \`${scope}\``;
  return rule === undefined ? what : `${what}, where rule \`${rule}\` asks`;
}
