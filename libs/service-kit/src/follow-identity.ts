import { readFileSync, watchFile } from 'node:fs';
import { type Identity, type IdentityFile, openIdentity } from '@countersign/protocol';

const POLL_MS = 1_000;

/**
 * An identity whose file may be replaced while the service runs: within about a second the new keys sign. The old ones stay
 * when the file cannot be read or names somebody else. Rejects when it cannot be opened at first.
 * @param onChange told of the public key that signs from now on.
 */
export async function followIdentity(file: string, onChange?: (publicKey: string) => void): Promise<Identity> {
  const read = () => openIdentity(JSON.parse(readFileSync(file, 'utf8')) as IdentityFile);
  let current = await read();
  const reload = async () => {
    const next = await read();
    if (next.role !== current.role || next.id !== current.id) return;
    const isNew = next.publicKey !== current.publicKey;
    current = next;
    if (isNew) onChange?.(next.publicKey);
  };
  watchFile(file, { interval: POLL_MS, persistent: false }, () => void reload().catch(() => undefined));
  return {
    role: current.role,
    id: current.id,
    get publicKey() {
      return current.publicKey;
    },
    get sealPublicKey() {
      return current.sealPublicKey;
    },
    get seed() {
      return current.seed;
    },
    sign: (data) => current.sign(data),
    open: (sealed, aad) =>
      current.open(sealed, aad).catch(async () => {
        // What is sealed to keys of a moment ago.
        await reload().catch(() => undefined);
        return current.open(sealed, aad);
      }),
  };
}
