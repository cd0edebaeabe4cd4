import { destination, type Logger, pino } from 'pino';

export type { Logger };

const SECRET_FIELDS = [
  'seed',
  'token',
  'password',
  'authorization',
  'cookie',
  'sealPrivateKey',
  'databaseUrl',
  'writerUrl',
  'arguments',
  'content',
];

/** JSON log lines on standard error. SECURITY: fields that may hold secrets or exact arguments are removed. */
export function createLogger(options: { name: string; level?: string }): Logger {
  return pino(
    {
      name: options.name,
      level: options.level ?? 'info',
      redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]), remove: true },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    destination({ fd: 2, sync: true }),
  );
}
