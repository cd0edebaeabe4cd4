import { clientTlsSchema, commonConfigSchema } from '@countersign/service-kit';
import { z } from 'zod';
import { oidcSchema } from './access/oidc-sign-in.ts';
import { passkeySettingsSchema } from './access/passkeys.ts';
import { groupsSchema, nameSchema, ROLES } from './access/principal.ts';
import { channelsSchema } from './notify/channel.ts';

const tokenSchema = z.object({
  /** The person it stands for. */
  name: nameSchema,
  role: z.enum(ROLES),
  groups: groupsSchema.default([]),
  /** Hex SHA-256 of the token; the token itself is never kept. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

/** Configuration of the gateway. */
export const gatewayConfigSchema = commonConfigSchema.extend({
  /** Broker address that hosts and agents are told; absent: `natsUrl`. */
  publicNatsUrl: z.string().min(1).optional(),
  auditAddress: z.string().min(1),
  guardianAddress: z.string().min(1),
  /** Its certificate towards `audit` and `guardian`, whose certificates are of these names. Absent: both are on loopback. */
  tls: clientTlsSchema.optional(),
  http: z.object({
    host: z.string().min(1),
    port: z.int().min(0).max(65_535),
    /** Addresses or networks (CIDR) of reverse proxies whose `X-Forwarded-For` is believed; all others are clients themselves. */
    trustedProxies: z
      .array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()]))
      .max(64)
      .default([]),
  }),
  /** Key that agents and hosts seal payloads to. */
  controlIdentityFile: z.string().min(1),
  /** Folder of the built desk; a missing one leaves only the API. */
  deskDir: z.string().min(1),
  /** Address at which people reach the desk; absent: the one it listens on. */
  publicUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** Channels that tell people outside the desk. */
  channels: channelsSchema,
  tokens: z.array(tokenSchema).max(1_000),
  /** Passkeys of approvers; absent: no queue can ask for them. */
  passkeys: passkeySettingsSchema.optional(),
  /** Identity provider; absent: one-time links and tokens only. */
  oidc: oidcSchema.optional(),
  /** Hardened mode that no policy undoes; `COUNTERSIGN_HARDENED_MODE` sets it too. */
  hardened: z.boolean().default(false),
  /** File of the managed layer, watched; takes the place of `policy`. */
  policyFile: z.string().min(1).optional(),
  /** The managed layer itself, where no file is named. */
  policy: z
    .object({
      permissions: z.record(z.string(), z.unknown()),
      ceilings: z.record(z.string(), z.unknown()),
      security: z.record(z.string(), z.unknown()),
    })
    .optional(),
});

/** True for a value of `COUNTERSIGN_HARDENED_MODE` that turns hardened mode on. */
export const isHardened = (value: string | undefined): boolean => value === '1' || value === 'true';

export type GatewayConfig = z.infer<typeof gatewayConfigSchema>;
export type TokenRecord = z.infer<typeof tokenSchema>;
