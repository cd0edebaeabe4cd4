import { readFileSync, statSync } from 'node:fs';
import { err, ok, type Result } from '@countersign/kernel';
import type { ProviderConfig } from '../config.ts';
import { visibleText } from '../prompt/visible-text.ts';
import { completeWithAnthropic } from './anthropic-provider.ts';
import { completeWithOpenAi } from './openai-provider.ts';
import { misconfigured, type Provider } from './provider.ts';

const OTHERS = 0o077;

/** Reads a key file. SECURITY: the key appears in no message; a file that others can read is refused. */
function readKey(file: string | undefined): Result<string | undefined, string> {
  if (file === undefined) return ok(undefined);
  try {
    if ((statSync(file).mode & OTHERS) !== 0) return err(`key file \`${file}\` is open to others; set mode 0600`);
    const key = readFileSync(file, 'utf8').trim();
    return /^[\x21-\x7e]{1,4096}$/.test(key) ? ok(key) : err(`key file \`${file}\` does not hold exactly one key`);
  } catch {
    return err(`key file \`${file}\` cannot be read`);
  }
}

/** Opens a configured endpoint. One that cannot review is opened too and says why; nothing is sent to it. */
export function openProvider(config: ProviderConfig): Provider {
  const key = readKey(config.apiKeyFile);
  const standing =
    config.completion === 'stream_only'
      ? `provider \`${config.name}\` accepts only streamed requests, so calls that need a review are denied`
      : undefined;
  const problem = (model: string): string | undefined => {
    if (standing) return standing;
    if (!key.ok) return `provider \`${config.name}\`: ${key.error}`;
    if (config.kind === 'anthropic' && key.value === undefined)
      return `provider \`${config.name}\` needs \`apiKeyFile\``;
    return config.models.includes(model)
      ? undefined
      : `model \`${visibleText(model.slice(0, 128))}\` is not among the models of provider \`${config.name}\``;
  };
  const complete = config.kind === 'anthropic' ? completeWithAnthropic : completeWithOpenAi;
  return {
    name: config.name,
    problem,
    complete: async (model, prompt, signal) => {
      const reason = problem(model);
      if (reason !== undefined || !key.ok) return err(misconfigured(reason ?? 'no key'));
      return complete(config, key.value, { model, prompt, signal });
    },
  };
}
