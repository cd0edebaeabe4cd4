import { z } from 'zod';

const id = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);

const isLoopback = (host: string): boolean => ['localhost', '127.0.0.1', '[::1]', '::1'].includes(host);

/** Where a webhook goes. SECURITY: plain http only to this machine; user info in a URL would end up in logs of proxies. */
const targetUrl = z.url({ protocol: /^https?$/ }).refine((text) => {
  const url = new URL(text);
  return url.username === '' && url.password === '' && (url.protocol === 'https:' || isLoopback(url.hostname));
}, 'use https and no user info');

const shared = {
  /** Name of the channel; part of NATS subjects. */
  id,
  /** Queues whose calls are told; absent tells all. */
  queues: z.array(z.string().min(1).max(64)).min(1).max(100).optional(),
};

const webhookSchema = z.strictObject({
  ...shared,
  kind: z.literal('webhook'),
  /** `standard` sends the notice itself as JSON; the others the message form of that product's incoming webhooks. */
  template: z.enum(['standard', 'slack', 'teams', 'feishu']).default('standard'),
  url: targetUrl,
  /**
   * File that holds the signing secret and nothing else, readable by its owner only. `standard`: base64 after `whsec_`;
   * `feishu`: the robot's secret.
   */
  secretFile: z.string().min(1).optional(),
});

const emailSchema = z.strictObject({
  ...shared,
  kind: z.literal('email'),
  host: z.string().min(1).max(253),
  port: z.int().min(1).max(65_535).default(587),
  /** `tls` speaks TLS from the first byte, `starttls` refuses a server without it, `none` only to this machine. */
  security: z.enum(['tls', 'starttls', 'none']).default('starttls'),
  user: z.string().min(1).max(256).optional(),
  passwordFile: z.string().min(1).optional(),
  from: z.email(),
  to: z.array(z.email()).min(1).max(50),
});

/** A way to tell people outside the desk that a call waits or was decided. */
export const channelSchema = z
  .discriminatedUnion('kind', [webhookSchema, emailSchema])
  .refine(
    (channel) => channel.kind !== 'email' || channel.security !== 'none' || isLoopback(channel.host),
    '`security: none` is for a mail server on this machine only',
  )
  .refine(
    (channel) => channel.kind !== 'webhook' || channel.template !== 'standard' || channel.secretFile !== undefined,
    'a standard webhook needs a `secretFile`, so that its receiver can verify it',
  );

/** The channels of a gateway; ids differ. */
export const channelsSchema = z
  .array(channelSchema)
  .max(50)
  .refine((list) => new Set(list.map((channel) => channel.id)).size === list.length, 'channel ids must differ')
  .default([]);

export type Channel = z.output<typeof channelSchema>;
export type WebhookChannel = Extract<Channel, { kind: 'webhook' }>;
export type EmailChannel = Extract<Channel, { kind: 'email' }>;
