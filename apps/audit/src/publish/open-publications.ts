import { type Checkpoint, type NoteVerifier, verifySignedNote } from '@countersign/merkle';
import type { Logger } from '@countersign/service-kit';
import { inTime } from '../retry-loop.ts';
import type { StreamState } from '../streams/stream-follower.ts';
import type { Place } from './place.ts';
import { openPlace, type PublicationConfig } from './publish-config.ts';
import { Publisher, type PublisherOptions } from './publisher.ts';

const FOLLOW_MS = 200;
/** A start waits at most this long for what the places outside hold. */
const LOOK_MS = 5_000;

/** A checkpoint of this log, and where it was found. */
export type FoundCheckpoint = { readonly checkpoint: Checkpoint; readonly where: string };

/**
 * What the places outside hold of this log. A place that does not answer, or whose note this log did not sign, is warned of and
 * left out: it must not keep the log from going on.
 */
export async function publishedCheckpoints(
  configs: readonly PublicationConfig[],
  verifier: NoteVerifier,
  logger: Logger,
): Promise<FoundCheckpoint[]> {
  const look = async (config: PublicationConfig): Promise<FoundCheckpoint[]> => {
    const place: Place = openPlace(config);
    try {
      const note = await inTime(new AbortController().signal, LOOK_MS, (signal) => place.checkpoint(signal));
      if (note === undefined) return [];
      const read = verifySignedNote(note, verifier);
      if (read.ok) return [{ checkpoint: read.value, where: `publication \`${config.name}\`` }];
      logger.warn(
        { publication: config.name, problem: read.error.message },
        'a published checkpoint is not of this log',
      );
    } catch (error) {
      logger.warn({ publication: config.name, err: error }, 'a publication could not be compared with the log');
    } finally {
      await place.close().catch(() => undefined);
    }
    return [];
  };
  return (await Promise.all(configs.map(look))).flat();
}

export type Publications = { readonly states: () => StreamState[]; readonly stop: () => Promise<void> };

/** Starts every configured publication. */
export function openPublications(
  configs: readonly PublicationConfig[],
  options: Omit<PublisherOptions, 'name' | 'place' | 'entries' | 'everyMs' | 'onProblem'> & { readonly logger: Logger },
): Publications {
  const { logger, ...shared } = options;
  const publishers = configs.map((config) => {
    const { name, entries, everySeconds } = config;
    const onProblem = (problem: string) =>
      logger.warn({ publication: name, problem }, 'a publication does not get through');
    return new Publisher({
      ...shared,
      name,
      entries,
      everyMs: everySeconds * 1_000,
      place: openPlace(config),
      onProblem,
    });
  });
  const timer = setInterval(() => {
    for (const publisher of publishers) publisher.follow();
  }, FOLLOW_MS);
  return {
    states: () => publishers.map((publisher) => publisher.state()),
    stop: async () => {
      clearInterval(timer);
      await Promise.all(publishers.map((publisher) => publisher.stop()));
    },
  };
}
