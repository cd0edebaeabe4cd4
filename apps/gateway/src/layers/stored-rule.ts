import type { LayerSource } from '@countersign/policy';
import { z } from 'zod';

/** A rule as a person or a permission update states it. */
export const ruleSchema = z.strictObject({
  toolName: z.string().min(1).max(256),
  pattern: z.string().min(1).max(4_096).optional(),
  reason: z.string().min(1).max(4_096).optional(),
});

/** What a saved rule adds to a session's layer. */
export const fragmentSchema = z.object({
  allowRules: z.array(ruleSchema).max(100).optional(),
  askRules: z.array(ruleSchema).max(100).optional(),
  denyRules: z.array(ruleSchema).max(100).optional(),
  allowedHosts: z.array(z.string().min(1).max(1_000)).max(100).optional(),
  sandboxBackend: z.enum(['bubblewrap', 'seatbelt', 'auto']).optional(),
});
export type Fragment = z.infer<typeof fragmentSchema>;

/** A rule that a person saved: by `always`, or by a permission update. */
export const storedRuleSchema = z.object({
  id: z.string(),
  /** How far it reaches: a session, an agent in one project of one host, that project, or everything of one person. */
  layer: z.enum(['session', 'local', 'project', 'user']),
  session: z.string(),
  principal: z.string(),
  agent: z.string(),
  host: z.string(),
  project: z.string(),
  fragment: fragmentSchema,
  /** Of a command: the folder that it must run in. */
  cwd: z.string().optional(),
  /** Of a command: programs and scripts that must be what they were. */
  files: z.array(z.object({ path: z.string(), real_path: z.string(), content_digest: z.string() })).max(256),
  by: z.string(),
  at_ms: z.number(),
  expires_ms: z.number().nullable(),
  /** Call or request on which it was saved. */
  from: z.string(),
  /** `proposed` waits for a second person. */
  state: z.enum(['proposed', 'active', 'revoked']),
  published_by: z.string().optional(),
  ended_by: z.string().optional(),
});
export type StoredRule = z.infer<typeof storedRuleSchema>;

/** One line for each thing that a rule says. */
export const fragmentText = (fragment: Fragment): string[] => [
  ...(['allow', 'ask', 'deny'] as const).flatMap((effect) =>
    (fragment[`${effect}Rules`] ?? []).map(
      ({ toolName, pattern }) => `${effect} \`${toolName}${pattern === undefined ? '' : ` ${pattern}`}\``,
    ),
  ),
  ...(fragment.allowedHosts ?? []).map((host) => `allow host \`${host}\``),
  ...(fragment.sandboxBackend === undefined ? [] : [`backend \`${fragment.sandboxBackend}\``]),
];

/** How far a rule reaches, for people. */
export function reachText({ layer, session, agent, host, project, principal }: StoredRule): string {
  switch (layer) {
    case 'session':
      return `session \`${session}\``;
    case 'local':
      return `agent \`${agent}\` for \`${principal}\` in \`${project}\` on \`${host}\``;
    case 'project':
      return `everybody in \`${project}\` on \`${host}\``;
    case 'user':
      return `every session of \`${principal}\``;
  }
}

/** Saved rules as one layer of the engine. */
export function layerOf(rules: readonly StoredRule[]): LayerSource {
  const named = rules.map(({ id, fragment }) => {
    const withId = (list: Fragment['allowRules'] = []) =>
      list.map(({ toolName, pattern, reason }) => ({
        ...{ toolName, id },
        ...(pattern === undefined ? {} : { pattern }),
        ...(reason === undefined ? {} : { reason }),
      }));
    return {
      ...fragment,
      allowRules: withId(fragment.allowRules),
      askRules: withId(fragment.askRules),
      denyRules: withId(fragment.denyRules),
    };
  });
  const backend = named.map(({ sandboxBackend }) => sandboxBackend).findLast((one) => one !== undefined);
  return {
    allowRules: named.flatMap(({ allowRules }) => allowRules),
    askRules: named.flatMap(({ askRules }) => askRules),
    denyRules: named.flatMap(({ denyRules }) => denyRules),
    allowedHosts: named.flatMap(({ allowedHosts }) => allowedHosts ?? []),
    ...(backend === undefined ? {} : { sandboxBackend: backend }),
  };
}
