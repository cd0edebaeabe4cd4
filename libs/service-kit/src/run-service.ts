import { createLogger, type Logger } from './logger.ts';

/** Longest time a service may drain before the process ends anyway. */
export const DRAIN_DEADLINE_MS = 10_000;

export type RunningService = {
  /** Takes nothing new and finishes what runs. */
  readonly stop: () => Promise<void>;
};

/**
 * Runs a service for the life of the process: starts it, drains it on SIGTERM or SIGINT within ten seconds, then ends.
 * Ends with 1 when the start fails, the drain fails or takes too long.
 */
export async function runService(options: {
  name: string;
  logLevel?: string;
  /** `stopping` is aborted by the first signal, for a start that waits. */
  start: (logger: Logger, stopping: AbortSignal) => Promise<RunningService>;
}): Promise<void> {
  const logger = createLogger({ name: options.name, level: options.logLevel ?? 'info' });
  const { promise: stopRequested, resolve: requestStop } = Promise.withResolvers<string>();
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      stopping.abort();
      requestStop(signal);
    });
  try {
    const service = await options.start(logger, stopping.signal);
    logger.info('started');
    const signal = await stopRequested;
    logger.info({ signal }, 'draining');
    const deadline = setTimeout(() => {
      logger.error(`did not drain within ${DRAIN_DEADLINE_MS} ms`);
      process.exit(1);
    }, DRAIN_DEADLINE_MS);
    await service.stop();
    clearTimeout(deadline);
    logger.info('stopped');
    process.exit(0);
  } catch (error) {
    logger.fatal({ err: error }, 'service failed');
    process.exit(1);
  }
}
