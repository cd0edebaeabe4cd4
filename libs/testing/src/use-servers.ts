import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  type EmbeddedNats,
  type EmbeddedPostgres,
  type NatsServerOptions,
  type PostgresOptions,
  startNats,
  startPostgres,
} from '@countersign/service-kit/embedded';
import { afterAll, beforeAll } from 'vitest';

type Server = { readonly stop: () => Promise<void> };

function useServer<S extends Server>(name: string, start: (dataDir: string) => Promise<S>): () => S {
  let running: S | undefined;
  let folder: string | undefined;
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), `countersign-${name}-`));
    running = await start(folder);
  });
  afterAll(async () => {
    await running?.stop();
    running = undefined;
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  });
  return () => {
    if (running) return running;
    throw new Error(`${name} runs only inside tests and hooks of the suite that asked for it`);
  };
}

/** A real PostgreSQL of the surrounding suite: empty at its start, stopped and removed at its end. */
export const usePostgres = (options: Omit<PostgresOptions, 'dataDir'> = {}): (() => EmbeddedPostgres) =>
  useServer('postgres', (dataDir) => startPostgres({ ...options, dataDir }));

/** A real nats-server with JetStream of the surrounding suite, with the given users; stopped and removed at its end. */
export const useNats = (options: Omit<NatsServerOptions, 'dataDir'>): (() => EmbeddedNats) =>
  useServer('nats', (dataDir) => startNats({ ...options, dataDir }));
