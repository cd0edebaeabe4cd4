import { readFileSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { Channel } from './channel.ts';
import type { Delivery } from './delivery.ts';
import type { Notice } from './notice.ts';
import { sendEmail } from './send-email.ts';
import { sendWebhook } from './send-webhook.ts';

/** Makes one attempt to deliver a notice. Never rejects. */
export type ChannelSender = (notice: Notice, nowMs: number) => Promise<Delivery>;

function readSecret(channel: Channel, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw new FaultError(`channel \`${channel.id}\`: cannot read \`${file}\``, { code: ERROR_CODES.internal, cause });
  }
}

/** Reads the channel's secret once and returns its sender. Throws when the file of the secret cannot be read. */
export function channelSender(channel: Channel): ChannelSender {
  if (channel.kind === 'webhook') {
    const secret = readSecret(channel, channel.secretFile);
    return (notice, nowMs) => sendWebhook(channel, notice, secret, nowMs);
  }
  const password = readSecret(channel, channel.passwordFile);
  return (notice) => sendEmail(channel, notice, password);
}
