import { err, ok, type Result } from '@countersign/kernel';
import OpenAI from 'openai';
import type { ProviderConfig } from '../config.ts';
import type { Prompt } from '../prompt/prompt.ts';
import { VERDICT_SCHEMA } from '../review/verdict.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { type Completion, malformed, type ProviderFault } from './provider.ts';

/** Endpoints without keys still get a header from the SDK. */
const NO_KEY = 'no-key';

function readCompletion(answer: OpenAI.Chat.ChatCompletion): Result<Completion, ProviderFault> {
  const choice = answer?.choices?.length === 1 ? answer.choices[0] : undefined;
  if (!choice) return err(malformed('answer does not hold exactly one choice'));
  if (choice.finish_reason !== 'stop') return err(malformed('answer is not complete'));
  const { message } = choice;
  if (message?.role !== 'assistant' || typeof message.content !== 'string')
    return err(malformed('answer holds no text of the model'));
  if (message.refusal || message.tool_calls?.length) return err(malformed('answer is not a verdict'));
  return ok({
    text: message.content,
    inputTokens: answer.usage?.prompt_tokens ?? 0,
    outputTokens: answer.usage?.completion_tokens ?? 0,
  });
}

const baseUrlOf = (config: ProviderConfig): string => {
  const base = config.baseUrl.replace(/\/+$/, '');
  return config.kind === 'ollama' && !base.endsWith('/v1') ? `${base}/v1` : base;
};

/** Asks an OpenAI-compatible chat completions endpoint, Ollama's among them, once and without streaming. */
export async function completeWithOpenAi(
  config: ProviderConfig,
  apiKey: string | undefined,
  request: { readonly model: string; readonly prompt: Prompt; readonly signal: AbortSignal },
): Promise<Result<Completion, ProviderFault>> {
  const bounded = boundedFetch(request.signal);
  const client = new OpenAI({
    apiKey: apiKey ?? NO_KEY,
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    baseURL: baseUrlOf(config),
    maxRetries: 0,
    logLevel: 'off',
    fetch: bounded.fetch,
  });
  try {
    const answer = await client.chat.completions.create(
      {
        model: request.model,
        stream: false,
        messages: [
          { role: 'system', content: request.prompt.system },
          { role: 'user', content: request.prompt.user },
        ],
        ...(config.kind === 'ollama' ? { max_tokens: config.maxOutputTokens } : {}),
        ...(config.structuredOutput
          ? {
              response_format: {
                type: 'json_schema',
                json_schema: { name: 'verdict', strict: true, schema: VERDICT_SCHEMA },
              },
            }
          : {}),
      },
      { signal: request.signal },
    );
    return readCompletion(answer);
  } catch {
    return err(bounded.fault() ?? malformed('answer is not a chat completion'));
  }
}
