import {
  type AppendRequest,
  type DocumentDraft,
  type EntryDraft,
  type JsonValue,
  parseIJson,
} from '@countersign/protocol';

const MAX_ENTRIES = 32;
const MAX_ID = 256;
const MAX_ENTRY_ID = 512;
const MAX_DOCUMENTS = 32;
/** Documents that a decision may name, its session's ancestors among them. */
const MAX_EXPECTED = 64;
const MAX_DOCUMENT_BYTES = 262_144;
/** Depth of a tree of sessions. */
const MAX_ANCESTORS = 32;
/** INVARIANT: only the record itself says these. */
const OWN_TYPES: ReadonlySet<string> = new Set([
  ...['freeze.set', 'freeze.cleared', 'freeze.confirmed', 'checkpoint', 'gap.found'],
  ...['hold.set', 'hold.released', 'erasure.done', 'retention.dropped'],
]);
const OWN_DOCUMENTS: ReadonlySet<string> = new Set(['hold', 'erasure', 'partition']);

const decoder = new TextDecoder('utf-8', { fatal: true });

/** What an entry says, as its sender wrote it. */
export type Body = { readonly [key: string]: unknown };

/** What a sender may say of an entry; everything else is the sequencer's word. */
const BODY_FIELDS: ReadonlySet<string> = new Set([
  'trace',
  'session',
  'execution_session',
  'agent',
  'host',
  'tool',
  'decision',
  'approver',
  'detail',
]);

/** Text that PostgreSQL stores and indexes: bounded, well formed, without control characters. */
function isKey(value: string, limit = MAX_ID): boolean {
  return value.length <= limit && value.isWellFormed() && !/\p{Cc}/u.test(value);
}

/** True when `callId` can be the id of a call. */
export const isCallId = (callId: string): boolean => callId !== '' && isKey(callId);

const isObject = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The body of a draft, or why it is refused. */
export function readBody(draft: EntryDraft): Body | string {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(draft.body));
  } catch {
    return `entry \`${draft.id}\` has a body that is not JSON`;
  }
  if (!isObject(value)) return `entry \`${draft.id}\` has a body that is no object`;
  const foreign = Object.keys(value).find((key) => !BODY_FIELDS.has(key));
  return foreign === undefined ? value : `body field \`${foreign.slice(0, 80)}\` is not for the sender to set`;
}

function hasNul(value: JsonValue): boolean {
  if (typeof value === 'string') return value.includes('\0');
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([key, item]) => key.includes('\0') || hasNul(item));
}

/** The value of a document, or why it is refused. SECURITY: what jsonb cannot hold must not reach the commit. */
function checkDocument(draft: DocumentDraft): string | undefined {
  if (draft.key === '' || !isKey(draft.key)) return 'document key is empty, too long or holds control characters';
  if (draft.value.length > MAX_DOCUMENT_BYTES) return `document \`${draft.key}\` is over ${MAX_DOCUMENT_BYTES} bytes`;
  const value = parseIJson(draft.value);
  if (!value.ok) return `document \`${draft.key}\`: ${value.error.message}`;
  if (!isObject(value.value)) return `document \`${draft.key}\` is no JSON object`;
  return hasNul(value.value) ? `document \`${draft.key}\` holds a NUL character` : undefined;
}

function checkEntry(draft: EntryDraft): string | undefined {
  if (draft.id === '' || !isKey(draft.id, MAX_ENTRY_ID))
    return 'entry id is empty, too long or holds control characters';
  if (draft.stream === '' || !isKey(draft.stream))
    return `stream of \`${draft.id}\` is empty, too long or not plain text`;
  if (!isKey(draft.callId)) return `call id of \`${draft.id}\` is too long or not plain text`;
  if (!isKey(draft.type)) return `type of \`${draft.id}\` is too long or not plain text`;
  const body = readBody(draft);
  return typeof body === 'string' ? body : undefined;
}

/** Why what a decision stands on is not well named. */
function checkBasis(request: AppendRequest): string | undefined {
  const { expected, grants, grantBounds, sessionId, call } = request;
  if (expected.length > MAX_EXPECTED || !expected.every(({ kind, key }) => isKey(kind) && isKey(key)))
    return `a request names at most ${MAX_EXPECTED} documents, as plain text`;
  if (grants.length > MAX_DOCUMENTS || !grants.every((grant) => isKey(grant)))
    return `a request names at most ${MAX_DOCUMENTS} grants, as plain text`;
  if (grantBounds && !(isKey(grantBounds.sessionId) && grantBounds.expiresAtMs <= BigInt(Number.MAX_SAFE_INTEGER)))
    return 'bounds of a grant are a session id and a time in milliseconds';
  if (!isKey(sessionId)) return 'session id is too long or not plain text';
  const ancestors = call?.ancestorSessionIds ?? [];
  if (ancestors.length > MAX_ANCESTORS || !ancestors.every((id) => id !== '' && isKey(id)))
    return `a session has at most ${MAX_ANCESTORS} ancestors, as plain text`;
  return undefined;
}

/**
 * Why a request could never be recorded, whatever the state. SECURITY: a database error ends the process, so nothing that the
 * database would refuse may get that far; otherwise one sender stops the record for everybody.
 */
export function checkRequest(request: AppendRequest): string | undefined {
  const { entries, documents, call } = request;
  if (entries.length === 0 || entries.length > MAX_ENTRIES) return `a request holds 1 to ${MAX_ENTRIES} entries`;
  if (documents.length > MAX_DOCUMENTS) return `a request holds at most ${MAX_DOCUMENTS} documents`;
  for (const draft of entries) {
    const wrong = checkEntry(draft);
    if (wrong !== undefined) return wrong;
  }
  for (const draft of documents) {
    const wrong = checkDocument(draft);
    if (wrong !== undefined) return wrong;
  }
  if (new Set(documents.map(({ kind, key }) => `${kind}/${key}`)).size !== documents.length)
    return 'a request changes each document once';
  if (new Set(entries.map(({ callId }) => callId).filter((callId) => callId !== '')).size > 1)
    return 'a request is about one call';
  const wrong = checkBasis(request);
  if (wrong !== undefined) return wrong;
  if (call && !(isCallId(call.callId) && isKey(call.agent) && isKey(call.sessionId)))
    return 'call id, agent or session id is empty, too long or not plain text';
  if (request.sealedResult.length > 0 && entries.every((draft) => draft.toState === ''))
    return 'a result comes with the transition that it belongs to';
  return undefined;
}

/** Why a sender may not say this: what the record itself does, only the record says. */
export function checkForeign({ entries, documents }: AppendRequest): string | undefined {
  const type = entries.find((draft) => OWN_TYPES.has(draft.type))?.type;
  if (type !== undefined) return `\`${type}\` is not for a sender to append`;
  const kind = documents.find((draft) => OWN_DOCUMENTS.has(draft.kind))?.kind;
  return kind === undefined ? undefined : `document kind \`${kind}\` is not for a sender to write`;
}

/** Bytes that a waiting request holds in memory and adds to a commit. */
export function weightOf(request: AppendRequest): number {
  let bytes = request.sealedResult.length + request.view.length;
  bytes += (request.call?.sealedPayload.length ?? 0) + (request.call?.canonicalEnvelope.length ?? 0);
  for (const draft of request.entries) bytes += draft.body.length;
  for (const draft of request.documents) bytes += draft.value.length;
  return bytes;
}
