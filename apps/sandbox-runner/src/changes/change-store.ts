import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { BlobStore } from './blob-store.ts';
import { syncFolder, writeDurable } from './durable-file.ts';
import { type FileChange, fileChangeSchema } from './file-change.ts';
import { thisProcess } from './process-owner.ts';

const MAX_CHANGES = 10_000;
const PRUNE_EVERY = 256;

const pendingSchema = z.strictObject({
  change: fileChangeSchema,
  /** Path of the half-made file. */
  temporary: z.string().startsWith('/'),
  /** Process that makes the change. */
  owner: z.string().max(64),
});

/** A change that was announced and whose end is not known. */
export type PendingChange = z.infer<typeof pendingSchema>;

async function readJson<T>(file: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    const parsed = schema.safeParse(JSON.parse(await readFile(file, 'utf8')));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Memory of what file tools changed on this account, in a folder that no sandbox shows. A change is announced before it
 * is made and confirmed after, so that a crash in between is found. Bounded; the oldest changes are forgotten first.
 */
export class ChangeStore {
  readonly blobs: BlobStore;
  private readonly folder: string;
  private confirmed = 0;

  constructor(folder: string, maxBlobBytes?: number) {
    this.folder = folder;
    this.blobs = new BlobStore({
      folder: path.join(folder, 'blobs'),
      ...(maxBlobBytes === undefined ? {} : { maxBytes: maxBlobBytes }),
    });
  }

  /** Announces a change; on return it would be found after a crash. */
  async announce(change: FileChange, temporary: string): Promise<void> {
    await mkdir(this.of('pending'), { recursive: true, mode: 0o700 });
    await mkdir(this.of('done'), { recursive: true, mode: 0o700 });
    const pending: PendingChange = { change, temporary, owner: thisProcess() };
    await writeDurable(this.of('pending', change.id), JSON.stringify(pending));
  }

  /** Notes that an announced change took place. */
  async confirm(change: FileChange): Promise<void> {
    await writeDurable(this.of('done', change.id), JSON.stringify(change));
    await this.forget(change.id);
    if (this.confirmed % PRUNE_EVERY === 0) await this.prune();
    this.confirmed += 1;
  }

  /** Notes that an announced change did not take place. */
  async forget(id: string): Promise<void> {
    await rm(this.of('pending', id), { force: true });
    await syncFolder(this.of('pending'));
  }

  find(id: string): Promise<FileChange | undefined> {
    const known = fileChangeSchema.shape.id.safeParse(id).success;
    return known ? readJson(this.of('done', id), fileChangeSchema) : Promise.resolve(undefined);
  }

  async pending(): Promise<readonly PendingChange[]> {
    const names = await readdir(this.of('pending')).catch(() => []);
    const found = await Promise.all(
      names.filter((name) => name.startsWith('chg_')).map((name) => readJson(this.of('pending', name), pendingSchema)),
    );
    return found.filter((item) => item !== undefined);
  }

  private of(kind: 'pending' | 'done', id = ''): string {
    return path.join(this.folder, kind, id);
  }

  private async prune(): Promise<void> {
    const names = (await readdir(this.of('done'))).sort();
    for (const name of names.slice(0, Math.max(0, names.length - MAX_CHANGES))) {
      await rm(this.of('done', name), { force: true });
    }
  }
}
