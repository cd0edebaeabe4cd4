import { commonConfigSchema } from '@countersign/service-kit';
import { z } from 'zod';

/** Roles of people and programs at the HTTP interface. */
export const ROLES = ['viewer', 'approver', 'operator', 'admin', 'auditor'] as const;
export type Role = (typeof ROLES)[number];

const tokenSchema = z.object({
  name: z.string().min(1).max(64),
  role: z.enum(ROLES),
  /** Hex SHA-256 of the token; the token itself is never kept. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

/** Configuration of the gateway. */
export const gatewayConfigSchema = commonConfigSchema.extend({
  auditAddress: z.string().min(1),
  guardianAddress: z.string().min(1),
  http: z.object({ host: z.string().min(1), port: z.int().min(0).max(65_535) }),
  /** Key that agents and hosts seal payloads to. */
  controlIdentityFile: z.string().min(1),
  /** Folder of the built desk; a missing one leaves only the API. */
  deskDir: z.string().min(1),
  tokens: z.array(tokenSchema).max(1_000),
  policy: z.object({
    permissions: z.record(z.string(), z.unknown()),
    ceilings: z.record(z.string(), z.unknown()),
    security: z.record(z.string(), z.unknown()),
  }),
});

export type GatewayConfig = z.infer<typeof gatewayConfigSchema>;
export type TokenRecord = z.infer<typeof tokenSchema>;
