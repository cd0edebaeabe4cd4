import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import type { LayerFile } from '../layers/layer-file.ts';
import { redecideCall } from './redecide.ts';
import { readView, type View } from './view.ts';

type Files = readonly LayerFile[] | undefined;

/** Answers of hosts for one round, so that a silent one is asked once. */
export type FilesOfRound = Map<string, Promise<Files>>;

const MAX_JUDGED = 20_000;
const judged = new WeakMap<Gateway, Map<string, string>>();

const stateOf = (files: readonly { readonly layer: string; readonly digest: string }[]): string =>
  files
    .map(({ layer, digest }) => `${layer} ${digest}`)
    .sort()
    .join('\n');

async function filesNow(gateway: Gateway, host: string, project: string): Promise<Files> {
  const member = gateway.hosts.present(host, gateway.now()) && (await gateway.members.find('host', host));
  if (!member) return undefined;
  const found = await gateway.hostFiles.of(member, project);
  return found.ok ? found.value : undefined;
}

/** True once for each state of the files that differs from the one that a call was decided on. */
function isNews(
  gateway: Gateway,
  callId: string,
  { files: decidedOn = [] }: View,
  files: readonly LayerFile[],
): boolean {
  const now = stateOf(files);
  if (now === stateOf(decidedOn.filter(({ state }) => state !== 'held'))) return false;
  const known = judged.get(gateway) ?? new Map<string, string>();
  judged.set(gateway, known);
  if (known.get(callId) === now) return false;
  if (known.size >= MAX_JUDGED) known.clear();
  known.set(callId, now);
  return true;
}

/** Where a call's permission files lie: its host and project. */
export const placeOf = ({ host }: Pick<CallRecord, 'host'>, { project }: View): string => `${host}\0${project}`;

/** Looks at the permission files of every place where a call waits. */
export async function noteFiles(gateway: Gateway, round: FilesOfRound): Promise<void> {
  const places = gateway.waiting.places();
  gateway.waiting.forgetFiles(places);
  for (const place of places) {
    const [host = '', project = ''] = place.split('\0');
    const files = await (round.get(place) ?? filesNow(gateway, host, project));
    if (files) gateway.waiting.noteFiles(place, stateOf(files));
  }
}

/**
 * Decides an unstarted call again when its host has other permission files than the ones it was decided on; true when the
 * answer became stricter and the call was withdrawn. A host that is away changes nothing.
 */
export async function redecideChanged(
  gateway: Gateway,
  record: CallRecord,
  round: FilesOfRound = new Map(),
): Promise<boolean> {
  const view = readView(record.view);
  if (!view) return false;
  const key = placeOf(record, view);
  const asked = round.get(key) ?? filesNow(gateway, record.host, view.project);
  round.set(key, asked);
  const files = await asked;
  return files !== undefined && isNews(gateway, record.callId, view, files) && (await redecideCall(gateway, record));
}
