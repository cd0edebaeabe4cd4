import type { LayerSource } from '@countersign/policy';
import type { Gateway } from '../context.ts';
import { json } from '../record/entries.ts';
import { MAX_HELD, type Session, type SessionChain } from '../record/sessions.ts';
import type { LayerFile } from './layer-file.ts';
import { isTightening, tighteningOf } from './tightening.ts';

const KIND = 'policy_file';
const MAX_KNOWN = 1_000;
const known = new WeakMap<Gateway, Map<string, LayerSource>>();

export type HeldFile = NonNullable<Session['held_files']>[number];

/** What a held version of a file takes away. Rejects when the record does not have it: nothing is decided without it. */
export async function heldTightening(gateway: Gateway, { digest }: HeldFile): Promise<LayerSource> {
  const read = known.get(gateway) ?? new Map<string, LayerSource>();
  known.set(gateway, read);
  const found = read.get(digest);
  if (found) return found;
  const [document] = await gateway.audit.listDocuments(KIND, digest);
  if (!document) throw new Error(`the record has no permission file ${digest}`);
  const tight = JSON.parse(new TextDecoder().decode(document.value)) as LayerSource;
  if (read.size >= MAX_KNOWN) read.clear();
  read.set(digest, tight);
  return tight;
}

/** True when a session already meets as many versions as it may hold. */
export const holdsTooMany = (session: Session): boolean => (session.held_files ?? []).length >= MAX_HELD;

/**
 * Has a session keep to what these files take away, in the record first. Resolves to true when the session was changed, and
 * to false when there was nothing to do or when somebody else changed it at the same moment; read it again.
 */
export async function holdFiles(
  gateway: Gateway,
  { session, version }: Pick<SessionChain, 'session' | 'version'>,
  files: readonly LayerFile[],
): Promise<boolean> {
  const held = session.held_files ?? [];
  const fresh = files.filter(
    ({ layer, digest, source }) =>
      source !== undefined &&
      isTightening(tighteningOf(source)) &&
      !held.some((one) => one.layer === layer && one.digest === digest),
  );
  if (fresh.length === 0 || held.length + fresh.length > MAX_HELD) return false;
  const added = fresh.map(({ layer, path, digest }) => ({ layer, path, digest }));
  const documents = [];
  for (const { digest, source = {} } of new Map(fresh.map((file) => [file.digest, file])).values())
    if ((await gateway.audit.listDocuments(KIND, digest)).length === 0)
      documents.push({ kind: KIND, key: digest, value: json(tighteningOf(source)), expectedVersion: 0n });
  const entry = {
    type: 'session.changed',
    nowMs: gateway.now(),
    detail: { what: 'permission files', files: added },
  } as const;
  const next = { ...session, held_files: [...held, ...added] };
  await gateway.sessions.change({ session, version }, next, entry, documents);
  return true;
}
