import { readFileSync, statSync } from 'node:fs';
import { err, ok, type Result } from '@countersign/kernel';
import type { ProviderConfig } from '../config.ts';
import { visibleText } from '../prompt/visible-text.ts';
import { completeWithAnthropic } from './anthropic-provider.ts';
import { completeWithOpenAi } from './openai-provider.ts';
import { misconfigured, type Provider } from './provider.ts';

const OTHERS = 0o077;

const isKey = (text: string): boolean => /^[\x21-\x7e]{1,4096}$/.test(text);

/** Reads a key file. SECURITY: the key appears in no message; a file that others can read is refused. */
function readKeyFile(file: string): Result<string, string> {
  try {
    if ((statSync(file).mode & OTHERS) !== 0) return err(`key file \`${file}\` is open to others; set mode 0600`);
    const key = readFileSync(file, 'utf8').trim();
    return isKey(key) ? ok(key) : err(`key file \`${file}\` does not hold exactly one key`);
  } catch {
    return err(`key file \`${file}\` cannot be read`);
  }
}

function keyOf(config: ProviderConfig, given: string | undefined): Result<string | undefined, string> {
  const { apiKeyFile: file, apiKeyVariable: variable } = config;
  if (file !== undefined && variable !== undefined) return err('give `apiKeyFile` or `apiKeyVariable`, not both');
  if (file !== undefined) return readKeyFile(file);
  if (variable === undefined) return ok(undefined);
  const key = given?.trim() ?? '';
  return isKey(key) ? ok(key) : err(`variable \`${variable}\` does not hold exactly one key`);
}

/** Opens a configured endpoint. One that cannot review is opened too and says why; nothing is sent to it. */
export function openProvider(config: ProviderConfig, keyOfEnvironment?: string): Provider {
  const key = keyOf(config, keyOfEnvironment);
  const standing =
    config.completion === 'stream_only'
      ? `provider \`${config.name}\` accepts only streamed requests, so calls that need a review are denied`
      : undefined;
  const problem = (model: string): string | undefined => {
    if (standing) return standing;
    if (!key.ok) return `provider \`${config.name}\`: ${key.error}`;
    if (config.kind === 'anthropic' && key.value === undefined)
      return `provider \`${config.name}\` needs \`apiKeyFile\` or \`apiKeyVariable\``;
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
