import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { fileSink, LINE_FORMATS } from './file-sink.ts';
import { otlpSink } from './otlp-sink.ts';
import type { Sink } from './stream-entry.ts';
import { syslogSink } from './syslog-sink.ts';

const absolutePath = z.string().startsWith('/').max(4_096);
const MAX_STREAMS = 16;

const toFile = z.strictObject({
  kind: z.literal('file'),
  path: absolutePath,
  format: z.enum(LINE_FORMATS).default('json'),
});
const toSyslog = z.strictObject({
  kind: z.literal('syslog'),
  host: z.string().min(1).max(255),
  port: z.int().min(1).max(65_535).default(6_514),
  caFile: absolutePath,
  serverName: z.string().min(1).max(255).optional(),
  certFile: absolutePath.optional(),
  keyFile: absolutePath.optional(),
  /** Private enterprise number of the structured data; the default is the one reserved for examples. */
  enterpriseId: z
    .string()
    .regex(/^\d{1,10}$/)
    .default('32473'),
});
const toOtlp = z.strictObject({
  kind: z.literal('otlp'),
  /** Whole address, such as `https://collector:4318/v1/logs`. */
  url: z.url({ protocol: /^https?$/ }),
  /** JSON object with header names and values, for credentials. */
  headersFile: absolutePath.optional(),
});

/** Streams of entries to places outside. A new name begins at entry 0; a known one goes on where it was. */
export const streamsSchema = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/),
      to: z.discriminatedUnion('kind', [toFile, toSyslog, toOtlp]),
    }),
  )
  .max(MAX_STREAMS)
  .refine((streams) => new Set(streams.map(({ name }) => name)).size === streams.length, 'names of streams differ')
  .default([]);

export type StreamConfig = z.output<typeof streamsSchema>[number];

/** The sink that a configuration names. Throws when a file of its credentials cannot be read. */
export function openSink({ to }: StreamConfig): Sink {
  if (to.kind === 'file') return fileSink(to.path, to.format);
  if (to.kind === 'syslog') return syslogSink(to);
  const headers =
    to.headersFile === undefined
      ? {}
      : z.record(z.string(), z.string()).parse(JSON.parse(readFileSync(to.headersFile, 'utf8')));
  return otlpSink({ url: to.url, headers });
}
