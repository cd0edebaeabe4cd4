import { z } from 'zod';
import { folderPlace } from './folder-place.ts';
import { natsPlace } from './nats-place.ts';
import type { Place } from './place.ts';
import { s3Place } from './s3-place.ts';

const absolutePath = z.string().startsWith('/').max(4_096);
const MAX_PUBLICATIONS = 8;
const LOOPBACK = new Set(['127.0.0.1', '[::1]', 'localhost']);

/** SECURITY: without TLS anybody on the way could read the credentials' signatures and answer in the store's name. */
const isSafe = (url: string): boolean => url.startsWith('https:') || LOOPBACK.has(new URL(url).hostname);

const toFolder = z.strictObject({ kind: z.literal('folder'), path: absolutePath });
const toS3 = z.strictObject({
  kind: z.literal('s3'),
  url: z.url({ protocol: /^https?$/ }).refine(isSafe, 'is https, or of this machine'),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,32}$/)
    .default('us-east-1'),
  credentialsFile: absolutePath,
});
const toNats = z.strictObject({
  kind: z.literal('nats'),
  url: z.string().min(1).max(2_048),
  subject: z.string().regex(/^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,15}$/),
  credentialsFile: absolutePath.optional(),
  caFile: absolutePath.optional(),
});

/** Places outside that hold hash tiles and checkpoints of the log, so that the operator cannot show two histories. */
export const publicationsSchema = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/),
      to: z.discriminatedUnion('kind', [toFolder, toS3, toNats]),
      /** Seconds from one published checkpoint to the next, at least. */
      everySeconds: z.int().min(1).max(86_400).default(10),
      /** Also the entries themselves, which hold masked text. */
      entries: z.boolean().default(false),
    }),
  )
  .max(MAX_PUBLICATIONS)
  .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, 'names of publications differ')
  .refine((all) => all.every(({ to, entries }) => to.kind !== 'nats' || !entries), 'a subject takes checkpoints alone')
  .default([]);

export type PublicationConfig = z.output<typeof publicationsSchema>[number];

/** The place that a configuration names; nothing is read or connected before its first use. */
export function openPlace({ to }: PublicationConfig): Place {
  if (to.kind === 'folder') return folderPlace(to.path);
  return to.kind === 's3' ? s3Place(to) : natsPlace(to);
}
