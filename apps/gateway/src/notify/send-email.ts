import nodemailer from 'nodemailer';
import type { EmailChannel } from './channel.ts';
import { type Delivery, delivered, gone, retry } from './delivery.ts';
import { factsOf, headlineOf, type Notice } from './notice.ts';

const TIMEOUT_MS = 10_000;

const textOf = (notice: Notice): string =>
  [
    `${headlineOf(notice)}.`,
    '',
    notice.data.summary,
    '',
    ...factsOf(notice).map(([name, value]) => `${name}: ${value}`),
    '',
    `Sign in to decide: ${notice.data.url}`,
    '',
  ].join('\n');

/** Sends one notice as plain text through the channel's mail server, over TLS except to this machine. Never rejects. */
export async function sendEmail(
  channel: EmailChannel,
  notice: Notice,
  password: string | undefined,
): Promise<Delivery> {
  const transport = nodemailer.createTransport({
    host: channel.host,
    port: channel.port,
    secure: channel.security === 'tls',
    requireTLS: channel.security === 'starttls',
    ignoreTLS: channel.security === 'none',
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(channel.user === undefined ? {} : { auth: { user: channel.user, pass: password ?? '' } }),
  });
  const sent = transport.sendMail({
    from: channel.from,
    to: [...channel.to],
    subject: `${headlineOf(notice)}: ${notice.data.tool} on ${notice.data.host}`,
    text: textOf(notice),
    messageId: `<${notice.id}@countersign>`,
    headers: { 'auto-submitted': 'auto-generated' },
  });
  const { promise: late, resolve } = Promise.withResolvers<Delivery>();
  sent.catch(() => undefined);
  const deadline = setTimeout(() => resolve(retry(`no answer within ${TIMEOUT_MS / 1_000} s`)), TIMEOUT_MS);
  try {
    return await Promise.race([sent.then(() => delivered), late]);
  } catch (error) {
    const { responseCode } = error as { responseCode?: number };
    if (responseCode !== undefined && responseCode >= 500) return gone(`the mail server answered ${responseCode}`);
    return retry(responseCode === undefined ? 'the mail server cannot be reached' : `it answered ${responseCode}`);
  } finally {
    clearTimeout(deadline);
    transport.close();
  }
}
