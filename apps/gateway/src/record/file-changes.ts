import { type CallRecord, ToolResult } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { json } from './entries.ts';

const PAGE = 500;
/** Pages of calls that a list looks through for changes. */
const MAX_PAGES = 20;

type Change = CallRecord['fileChanges'][number];
type Review = { readonly by: string; readonly atMs: number };

/** One change of a file, as people see it. */
export type ChangeView = {
  readonly change: string;
  readonly callId: string;
  readonly agent: string;
  readonly sessionId: string;
  readonly host: string;
  readonly tool: string;
  readonly path: string;
  readonly atMs: number;
  readonly before: { readonly digest: string; readonly size: number } | null;
  readonly after: { readonly digest: string; readonly size: number } | null;
  readonly state: 'unreviewed' | 'reviewed' | 'rolled_back';
  readonly reviewedBy?: string;
  readonly rollsBack?: string;
  /** A crash left it open whether the change took place. */
  readonly uncertain?: true;
};

const sideOf = (state: Change['before']) =>
  state ? { digest: Buffer.from(state.digest).toString('hex'), size: Number(state.size) } : null;

function viewOf(record: CallRecord, change: Change, review?: Review, isRolledBack = false): ChangeView {
  return {
    change: change.id,
    callId: record.callId,
    agent: record.agent,
    sessionId: record.sessionId,
    host: record.host,
    tool: record.tool,
    path: change.path,
    atMs: Number(record.updatedMs),
    before: sideOf(change.before),
    after: sideOf(change.after),
    state: isRolledBack ? 'rolled_back' : review ? 'reviewed' : 'unreviewed',
    ...(review ? { reviewedBy: review.by } : {}),
    ...(change.rollsBack === '' ? {} : { rollsBack: change.rollsBack }),
    ...(change.uncertain ? { uncertain: true as const } : {}),
  };
}

async function reviewsOf(gateway: Gateway, callId = ''): Promise<ReadonlyMap<string, Review>> {
  const documents = await gateway.audit.listDocuments('file_review', callId);
  return new Map(documents.map(({ key, value }) => [key, JSON.parse(new TextDecoder().decode(value)) as Review]));
}

/** Records that made changes, newest first, until `enough` says so. */
async function* changingCalls(gateway: Gateway): AsyncGenerator<CallRecord> {
  let token = '';
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const { calls, nextPageToken } = await gateway.audit.listCalls(['done', 'interrupted'], PAGE, token);
    yield* calls.filter(({ fileChanges }) => fileChanges.length > 0);
    if (nextPageToken === '') return;
    token = nextPageToken;
  }
}

/**
 * Changes of files that `mayKnow` allows, newest first. A rolled back change is told by the rollback that came after it,
 * unless that one was rolled back itself.
 */
export async function listChanges(
  gateway: Gateway,
  mayKnow: (record: CallRecord) => boolean,
  query: { readonly state?: ChangeView['state']; readonly limit: number },
): Promise<readonly ChangeView[]> {
  const reviews = await reviewsOf(gateway);
  const takenBack = new Set<string>();
  const found: ChangeView[] = [];
  for await (const record of changingCalls(gateway)) {
    for (const change of record.fileChanges) {
      const view = viewOf(record, change, reviews.get(record.callId), takenBack.has(change.id));
      if (view.rollsBack && view.state !== 'rolled_back') takenBack.add(view.rollsBack);
      if (mayKnow(record) && (query.state === undefined || view.state === query.state)) found.push(view);
    }
    if (found.length >= query.limit) break;
  }
  return found.slice(0, query.limit);
}

/** The change of one call with its diff as the host reported it, read for `reader`, which is recorded; undefined when the call changed no file. */
export async function readChange(
  gateway: Gateway,
  record: CallRecord,
  reader: string,
): Promise<(ChangeView & { readonly diff: string }) | undefined> {
  const [change] = record.fileChanges;
  if (!change) return undefined;
  const listed = await listChanges(gateway, ({ callId }) => callId === record.callId, { limit: 1 });
  const reviews = await reviewsOf(gateway, record.callId);
  const view = listed[0] ?? viewOf(record, change, reviews.get(record.callId));
  const payload = await gateway.audit.getPayload(record.callId, reader);
  const opened = await gateway.control
    .open(payload?.sealedResult ?? new Uint8Array(), record.orderId)
    .catch(() => undefined);
  const diff = opened ? new TextDecoder().decode(ToolResult.decode(opened).content) : '';
  return { ...view, diff };
}

/** Marks the change of a call as reviewed by a person; doing it again changes nothing. Returns why not, if refused. */
export async function markReviewed(gateway: Gateway, record: CallRecord, by: string): Promise<string | undefined> {
  const [change] = record.fileChanges;
  const known = await gateway.audit.listDocuments('file_review', record.callId);
  if (!change || known.length > 0) return undefined;
  const nowMs = gateway.now();
  const reply = await gateway.audit.append({
    entries: [
      {
        id: `ent_${record.callId}_file.reviewed_1`,
        type: 'file.reviewed',
        stream: `change.${change.id}`,
        emittedMs: BigInt(nowMs),
        body: json({ host: record.host, detail: { call: record.callId, change: change.id, by } }),
      },
    ],
    documents: [{ kind: 'file_review', key: record.callId, value: json({ by, atMs: nowMs }), expectedVersion: 0n }],
  });
  return reply.refusal?.message;
}
