import Anthropic from '@anthropic-ai/sdk';
import { err, ok, type Result } from '@countersign/kernel';
import type { ProviderConfig } from '../config.ts';
import type { Prompt } from '../prompt/prompt.ts';
import { VERDICT_SCHEMA } from '../review/verdict.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { type Completion, malformed, type ProviderFault } from './provider.ts';

function readMessage(answer: Anthropic.Message): Result<Completion, ProviderFault> {
  if (answer?.type !== 'message' || answer.role !== 'assistant') return err(malformed('answer is not a message'));
  if (answer.stop_reason !== 'end_turn') return err(malformed('answer is not complete'));
  const block = answer.content?.length === 1 ? answer.content[0] : undefined;
  if (block?.type !== 'text' || typeof block.text !== 'string')
    return err(malformed('answer does not hold exactly one block of text'));
  return ok({
    text: block.text,
    inputTokens: answer.usage?.input_tokens ?? 0,
    outputTokens: answer.usage?.output_tokens ?? 0,
  });
}

/** Asks an Anthropic messages endpoint once and without streaming. */
export async function completeWithAnthropic(
  config: ProviderConfig,
  apiKey: string | undefined,
  request: { readonly model: string; readonly prompt: Prompt; readonly signal: AbortSignal },
): Promise<Result<Completion, ProviderFault>> {
  const bounded = boundedFetch(request.signal);
  const client = new Anthropic({
    apiKey: apiKey ?? '',
    authToken: null,
    webhookKey: null,
    baseURL: config.baseUrl.replace(/\/+$/, ''),
    maxRetries: 0,
    logLevel: 'off',
    openTelemetry: false,
    fetch: bounded.fetch,
  });
  try {
    const answer = await client.messages.create(
      {
        model: request.model,
        max_tokens: config.maxOutputTokens,
        stream: false,
        system: request.prompt.system,
        messages: [{ role: 'user', content: request.prompt.user }],
        ...(config.structuredOutput
          ? { output_config: { format: { type: 'json_schema' as const, schema: VERDICT_SCHEMA } } }
          : {}),
      },
      { signal: request.signal },
    );
    return readMessage(answer);
  } catch {
    return err(bounded.fault() ?? malformed('answer is not a message'));
  }
}
