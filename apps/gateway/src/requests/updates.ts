import { compileHostPattern, findSuspicious } from '@countersign/patterns';
import { z } from 'zod';
import { ruleSchema } from '../layers/stored-rule.ts';

/** Updates that one request or one act of an operator holds at most, and entries of one update. */
const MAX_UPDATES = 20;
const MAX_ENTRIES = 100;

/** SECURITY: text that could look like other text to the person who decides is refused, not shown. */
const plain = (text: string): boolean => findSuspicious(text) === undefined;

const hostPattern = z
  .string()
  .min(1)
  .max(1_000)
  .refine(plain, 'a host holds hidden characters')
  .refine((text) => compileHostPattern(text) !== undefined, 'is no host pattern; try `api.example.com`');

const rule = ruleSchema.refine(
  ({ toolName, pattern = '', reason = '' }) => [toolName, pattern, reason].every(plain),
  'a rule holds hidden characters',
);

const destination = z.enum(['session', 'local', 'project', 'user']);
const rules = { effect: z.enum(['allow', 'ask', 'deny']), rules: z.array(rule).max(MAX_ENTRIES), destination };
const hosts = z.array(hostPattern).max(MAX_ENTRIES);

/** One change of what a session, or everything in the reach of a lasting destination, may do. policy.md sections 7 and 9. */
export const updateSchema = z.discriminatedUnion('type', [
  z
    .strictObject({
      type: z.literal('setMode'),
      mode: z.enum(['strict', 'dev', 'networked', 'yolo']).optional(),
      approvalMode: z.enum(['manual', 'auto', 'full_access']).optional(),
      destination,
    })
    .refine(({ mode, approvalMode }) => mode !== undefined || approvalMode !== undefined, 'name a mode'),
  z.strictObject({ type: z.literal('addHosts'), hosts: hosts.min(1), destination }),
  z.strictObject({ type: z.literal('replaceHosts'), hosts, destination }),
  z.strictObject({
    type: z.literal('setSandboxBackend'),
    backend: z.enum(['app-guard', 'bubblewrap', 'seatbelt', 'auto']),
    destination,
  }),
  z.strictObject({ type: z.literal('addRules'), ...rules, rules: rules.rules.min(1) }),
  z.strictObject({ type: z.literal('replaceRules'), ...rules }),
  z.strictObject({ type: z.literal('removeRules'), ...rules, rules: rules.rules.min(1) }),
]);
export type Update = z.infer<typeof updateSchema>;

export const updatesSchema = z.array(updateSchema).min(1).max(MAX_UPDATES);
