import { createHmac } from 'node:crypto';
import type { WebhookChannel } from './channel.ts';
import { type Delivery, delivered, gone, retry } from './delivery.ts';
import type { Notice } from './notice.ts';
import { webhookBody } from './webhook-body.ts';

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 65_536;
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Headers of the Standard Webhooks specification (HMAC-SHA256 over id, timestamp in seconds and body). */
function signatureHeaders(notice: Notice, body: string, nowMs: number, secret: string): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signature = createHmac('sha256', key).update(`${notice.id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': notice.id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}

/** Reads at most `MAX_ANSWER_BYTES` of an answer. */
async function readAnswer(response: Response): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    if (text.length > MAX_ANSWER_BYTES) break;
  }
  return text.slice(0, MAX_ANSWER_BYTES);
}

function retryAfterMs(response: Response, nowMs: number): number {
  const header = response.headers.get('retry-after') ?? '';
  const wanted = /^\d{1,6}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return Number.isFinite(wanted) ? Math.min(Math.max(wanted, 0), MAX_RETRY_AFTER_MS) : 0;
}

/** Feishu answers 200 also when it refuses; the code tells. */
function feishuRefusal(answer: string): string | undefined {
  try {
    const { code, StatusCode } = JSON.parse(answer) as { code?: unknown; StatusCode?: unknown };
    return code === 0 || StatusCode === 0 ? undefined : `the robot answered code ${String(code).slice(0, 20)}`;
  } catch {
    return 'the robot answered something that is not JSON';
  }
}

async function judge(channel: WebhookChannel, response: Response, nowMs: number): Promise<Delivery> {
  const { status } = response;
  if (status === 410) return gone('the receiver answered 410: it wants no more');
  if (status >= 300 && status < 400) return gone(`the receiver redirects (${status}); configure its final address`);
  if (status === 429 || status >= 500) return retry(`the receiver answered ${status}`, retryAfterMs(response, nowMs));
  if (status >= 400) return gone(`the receiver answered ${status}`);
  if (channel.template !== 'feishu') return delivered;
  const refusal = feishuRefusal(await readAnswer(response));
  return refusal === undefined ? delivered : retry(refusal);
}

/**
 * Posts one notice and waits at most 10 s. Redirects are not followed, because the answer decides where the notice goes
 * then. Never rejects. SECURITY: `why` holds neither the address nor the answer, which may carry secrets.
 */
export async function sendWebhook(
  channel: WebhookChannel,
  notice: Notice,
  secret: string | undefined,
  nowMs: number,
): Promise<Delivery> {
  const body = webhookBody(channel.template, notice, nowMs, secret);
  const signed = channel.template === 'standard' && secret !== undefined;
  try {
    const response = await fetch(channel.url, {
      method: 'POST',
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: {
        'content-type': 'application/json',
        'user-agent': 'countersign',
        ...(signed ? signatureHeaders(notice, body, nowMs, secret) : {}),
      },
      body,
    });
    const delivery = await judge(channel, response, nowMs);
    await response.body?.cancel().catch(() => undefined);
    return delivery;
  } catch (error) {
    const timedOut = error instanceof Error && error.name === 'TimeoutError';
    return retry(timedOut ? `no answer within ${TIMEOUT_MS / 1_000} s` : 'the receiver cannot be reached');
  }
}
