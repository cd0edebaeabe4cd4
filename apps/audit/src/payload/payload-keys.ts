import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { open, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Data keys in memory; others are read again. */
const MAX_KEYS = 10_000;
const MASTER = 'master';

function encrypt(key: Buffer, aad: string, data: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(aad));
  return Buffer.concat([nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()]);
}

/** Undefined when key, associated data or content do not belong together. */
function decrypt(key: Buffer, aad: string, sealed: Uint8Array): Buffer | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const body = Buffer.from(sealed);
  const decipher = createDecipheriv(CIPHER, key, body.subarray(0, NONCE_BYTES)).setAAD(Buffer.from(aad));
  decipher.setAuthTag(body.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(body.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** Writes a file whole and durable, or not at all. */
async function writeDurable(file: string, content: Uint8Array): Promise<void> {
  const fresh = `${file}.new`;
  const handle = await open(fresh, 'w', 0o600);
  await handle.writeFile(content);
  await handle.sync();
  await handle.close();
  await rename(fresh, file);
  const folder = await open(path.dirname(file), 'r');
  await folder.sync();
  await folder.close();
}

/** What part of a call a payload is. */
export type PayloadPart = 'call' | 'result';

/** Name of a session's data key: nothing that is chosen by an agent becomes part of a path. */
export const payloadKeyId = (sessionId: string): string =>
  createHash('sha256').update(`countersign/payload-key/${sessionId}`).digest('hex').slice(0, 40);

const aadOf = (keyId: string, callId: string, part: PayloadPart): string => `${keyId}/${callId}/${part}`;

/**
 * Data keys of sessions, each in a file of its own, wrapped with a master key. SECURITY: the folder lies outside the database and
 * its backups; destroying a file makes every payload of its session unreadable, in copies of the database as well.
 */
export class PayloadKeys {
  readonly #folder: string;
  readonly #master: Buffer;
  readonly #keys = new Map<string, Buffer>();

  private constructor(folder: string, master: Buffer) {
    this.#folder = folder;
    this.#master = master;
  }

  /**
   * Opens the folder; makes it and its master key the first time. Throws a FaultError when there are data keys and no master
   * key: a new one would make every payload unreadable.
   */
  static async open(folder: string, masterFile = path.join(folder, MASTER)): Promise<PayloadKeys> {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
    if (!existsSync(masterFile)) {
      if (readdirSync(folder).some((name) => !name.endsWith('.new')))
        throw new FaultError(`the master key \`${masterFile}\` is missing; restore it`, {
          code: ERROR_CODES.auditPayloadKeys,
        });
      await writeDurable(masterFile, randomBytes(KEY_BYTES));
    }
    const master = readFileSync(masterFile);
    if (master.length !== KEY_BYTES)
      throw new FaultError(`the master key \`${masterFile}\` is damaged; restore it`, {
        code: ERROR_CODES.auditPayloadKeys,
      });
    return new PayloadKeys(folder, master);
  }

  /** Makes sure that the session has a key, and that it is durable. */
  async ensure(sessionId: string): Promise<void> {
    const keyId = payloadKeyId(sessionId);
    if (await this.#load(keyId)) return;
    const key = randomBytes(KEY_BYTES);
    await writeDurable(path.join(this.#folder, keyId), encrypt(this.#master, keyId, key));
    this.#keep(keyId, key);
  }

  /** Ciphertext of a payload. INVARIANT: `ensure` was awaited for the session. */
  seal(sessionId: string, callId: string, part: PayloadPart, data: Uint8Array): Uint8Array {
    const keyId = payloadKeyId(sessionId);
    const key = this.#keys.get(keyId);
    if (!key) throw new FaultError('a payload key was not loaded', { code: ERROR_CODES.auditPayloadKeys });
    return encrypt(key, aadOf(keyId, callId, part), data);
  }

  /** The payload; undefined when its key was destroyed, or it is not the payload of this call. */
  async open(keyId: string, callId: string, part: PayloadPart, sealed: Uint8Array): Promise<Uint8Array | undefined> {
    const key = await this.#load(keyId);
    return key && decrypt(key, aadOf(keyId, callId, part), sealed);
  }

  /** True while the session has a key, so that its payloads can be read. */
  has(sessionId: string): boolean {
    return existsSync(path.join(this.#folder, payloadKeyId(sessionId)));
  }

  /** Destroys a session's key. True when there was one. */
  async destroy(sessionId: string): Promise<boolean> {
    const keyId = payloadKeyId(sessionId);
    const file = path.join(this.#folder, keyId);
    const had = existsSync(file);
    this.#keys.delete(keyId);
    if (had) {
      const handle = await open(file, 'r+');
      await handle.write(randomBytes(NONCE_BYTES + KEY_BYTES + TAG_BYTES), 0, undefined, 0);
      await handle.sync();
      await handle.close();
    }
    await rm(file, { force: true });
    return had;
  }

  async #load(keyId: string): Promise<Buffer | undefined> {
    const known = this.#keys.get(keyId);
    if (known) {
      // Moved to the end, so that a key that is about to be used is not the next to be forgotten.
      this.#keys.delete(keyId);
      this.#keys.set(keyId, known);
      return known;
    }
    const file = path.join(this.#folder, keyId);
    if (!/^[0-9a-f]{40}$/.test(keyId) || !existsSync(file)) return undefined;
    const key = decrypt(this.#master, keyId, await readFile(file));
    if (!key)
      throw new FaultError('a payload key does not belong to the master key; restore both from the same copy', {
        code: ERROR_CODES.auditPayloadKeys,
      });
    this.#keep(keyId, key);
    return key;
  }

  #keep(keyId: string, key: Buffer): void {
    this.#keys.set(keyId, key);
    for (const oldest of this.#keys.keys()) {
      if (this.#keys.size <= MAX_KEYS) return;
      this.#keys.delete(oldest);
    }
  }
}
