import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { FaultError } from '@countersign/kernel';
import { parse } from 'yaml';
import { z } from 'zod';
import type { DataFolder } from './data-folder.ts';

/** What an operator may set for an embedded installation; the services check the parts and name the field at fault. */
const settingsSchema = z.strictObject({
  /** Address at which people reach the desk, for links in notices. */
  publicUrl: z.string().optional(),
  /** The organisation's identity provider, without `publicUrl`; docs/access.md. */
  oidc: z.record(z.string(), z.unknown()).optional(),
  /** Channels of the gateway that tell people outside the desk; docs/notifications.md. */
  channels: z.array(z.unknown()).optional(),
  /** Providers and limits of the Guardian; docs/guardian.md. */
  guardian: z.record(z.string(), z.unknown()).optional(),
  /** How far a model may stand in for people; docs/guardian.md. */
  review: z
    .strictObject({
      shadow: z.boolean().default(false),
      onFailed: z.enum(['deny', 'ask_human']).default('deny'),
      identityJudge: z.boolean().default(false),
      minAgreement: z.number().min(0).max(1).default(0.9),
      minCompared: z.int().min(1).max(100).default(20),
    })
    .optional(),
});

export type Settings = z.infer<typeof settingsSchema>;

/** Path of the settings; the file need not be there. */
export const settingsFile = (data: DataFolder): string => path.join(data.private, 'settings.yaml');

const refused = (message: string): FaultError => new FaultError(message, { code: 'countersign.cli.settings' });

/** Reads the settings; empty when there is no file. Throws a FaultError that names what is wrong, never a value. */
export function readSettings(data: DataFolder): Settings {
  const file = settingsFile(data);
  if (!existsSync(file)) return {};
  if ((statSync(file).mode & 0o022) !== 0)
    throw refused(`\`${file}\` may be written by others; run \`chmod 600\` on it`);
  let value: unknown;
  try {
    value = parse(readFileSync(file, 'utf8')) ?? {};
  } catch {
    throw refused(`\`${file}\` is not YAML`);
  }
  const parsed = settingsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const wrong = parsed.error.issues.map(({ message, path: at }) => `${at.join('.') || 'top level'}: ${message}`);
  throw refused(`\`${file}\`: ${wrong.join('; ').toLowerCase()}`);
}

/** Environment variables that hold keys of the Guardian's providers; only the Guardian gets them. */
export function keyVariables({ guardian }: Settings): readonly string[] {
  const providers: unknown = guardian?.providers;
  if (!Array.isArray(providers)) return [];
  return providers.flatMap((provider: { apiKeyVariable?: unknown } | null) =>
    typeof provider?.apiKeyVariable === 'string' ? [provider.apiKeyVariable] : [],
  );
}

/** The same, as the organisation's policy says it. */
export const reviewSecurity = ({ review }: Settings): Readonly<Record<string, unknown>> =>
  review === undefined
    ? {}
    : {
        guardian_shadow: review.shadow,
        on_failed_review: review.onFailed,
        identity_judge_llm_enabled: review.identityJudge,
        guardian_min_agreement: review.minAgreement,
        guardian_min_compared: review.minCompared,
      };
