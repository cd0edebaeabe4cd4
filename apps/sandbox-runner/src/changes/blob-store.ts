import { mkdir, readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { digestOf } from '../tools/digest.ts';
import { writeDurable } from './durable-file.ts';

/** Most bytes that are kept in all; the ones unused for longest go first. */
export const MAX_STORE_BYTES = 256 * 1024 * 1024;
const PRUNE_EVERY = 64;

export type BlobStoreOptions = { readonly folder: string; readonly maxBytes?: number };

/** Contents of files by their SHA-256, bounded in all. A content that was dropped or damaged is not found. */
export class BlobStore {
  private readonly folder: string;
  private readonly maxBytes: number;
  private puts = 0;

  constructor({ folder, maxBytes }: BlobStoreOptions) {
    this.folder = folder;
    this.maxBytes = maxBytes ?? MAX_STORE_BYTES;
  }

  /** On return the content is on disk. Returns its hex digest. */
  async put(content: Uint8Array): Promise<string> {
    const digest = Buffer.from(digestOf(content)).toString('hex');
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    if (this.puts % PRUNE_EVERY === 0) await this.prune();
    this.puts += 1;
    const file = this.pathOf(digest);
    const now = new Date();
    const known = await utimes(file, now, now).then(
      () => true,
      () => false,
    );
    if (!known) await writeDurable(file, content);
    return digest;
  }

  /** The content of a hex digest; undefined when it is not there or is not what its name says. */
  async get(digest: string): Promise<Uint8Array | undefined> {
    if (!/^[0-9a-f]{64}$/.test(digest)) return undefined;
    const content = await readFile(this.pathOf(digest)).catch(() => undefined);
    return content && Buffer.from(digestOf(content)).toString('hex') === digest ? content : undefined;
  }

  async has(digest: string): Promise<boolean> {
    return (await stat(this.pathOf(digest)).catch(() => undefined)) !== undefined;
  }

  private pathOf(digest: string): string {
    return path.join(this.folder, digest);
  }

  private async prune(): Promise<void> {
    const found = await Promise.all(
      (await readdir(this.folder)).map(async (name) => {
        const facts = await stat(this.pathOf(name)).catch(() => undefined);
        return { name, size: facts?.size ?? 0, usedMs: facts?.mtimeMs ?? 0 };
      }),
    );
    let total = found.reduce((sum, { size }) => sum + size, 0);
    for (const { name, size } of found.sort((a, b) => a.usedMs - b.usedMs)) {
      if (total <= this.maxBytes) return;
      await rm(this.pathOf(name), { force: true });
      total -= size;
    }
  }
}
