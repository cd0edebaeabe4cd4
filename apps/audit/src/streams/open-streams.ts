import type { Logger } from '@countersign/service-kit';
import type pg from 'pg';
import { openSink, type StreamConfig } from './stream-config.ts';
import { StreamFollower, type StreamState } from './stream-follower.ts';

const FOLLOW_MS = 200;

export type Streams = { readonly states: () => StreamState[]; readonly stop: () => Promise<void> };

/** Starts every configured stream. Throws when a sink's credentials cannot be read. */
export function openStreams(
  configs: readonly StreamConfig[],
  { pool, size, logger }: { readonly pool: pg.Pool; readonly size: () => number; readonly logger: Logger },
): Streams {
  const followers = configs.map(
    (config) =>
      new StreamFollower({
        name: config.name,
        sink: openSink(config),
        pool,
        size,
        onProblem: (problem) =>
          logger.warn({ stream: config.name, problem }, 'a stream of entries does not get through'),
      }),
  );
  const timer = setInterval(() => {
    for (const follower of followers) follower.follow();
  }, FOLLOW_MS);
  return {
    states: () => followers.map((follower) => follower.state()),
    stop: async () => {
      clearInterval(timer);
      await Promise.all(followers.map((follower) => follower.stop()));
    },
  };
}
