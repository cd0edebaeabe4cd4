import { err, ok, type Result } from '@countersign/kernel';

/** Every type of an audit entry. */
export const ENTRY_TYPES = [
  'call.received',
  'call.rejected',
  'call.closed',
  'call.cancel_requested',
  'handed_over',
  'exec.backgrounded',
  'exec.refused',
  'file.reviewed',
  'decision',
  'approval.requested',
  'approval.delivered',
  'approval.answered',
  'approval.expired',
  'approval.withdrawn',
  'dispatch.sent',
  'exec.started',
  'exec.finished',
  'exec.interrupted',
  'result.delivered',
  'grant.created',
  'grant.used',
  'grant.revoked',
  'grant.expired',
  'session.opened',
  'session.changed',
  'session.closed',
  'policy.loaded',
  'policy.changed',
  'key.added',
  'key.retired',
  'member.joined',
  'member.left',
  'member.taken_over',
  'journal.enrolled',
  'journal.confirmed',
  'freeze.set',
  'freeze.cleared',
  'freeze.confirmed',
  'file.changed',
  'file.rolled_back',
  'export.run',
  'audit.read',
  'hold.set',
  'hold.released',
  'retention.dropped',
  'erasure.done',
  'gap.found',
  'checkpoint',
  'admin.changed',
  'guardian.opinion',
  'guardian.compared',
] as const;

export type EntryType = (typeof ENTRY_TYPES)[number];

type Facts = { readonly [key: string]: unknown };

/** One line of the record. Times are milliseconds since the Unix epoch; `prev` is the hex leaf hash of the stream's previous entry. */
export type AuditEntry = {
  readonly version: 1;
  readonly index: number;
  readonly id: string;
  readonly tenant: string;
  readonly stream: string;
  readonly stream_seq: number;
  readonly prev: string | null;
  readonly type: EntryType;
  readonly emitted_ms: number;
  readonly recorded_ms: number;
  readonly call?: string;
  readonly trace?: string;
  readonly session?: string;
  readonly execution_session?: string;
  readonly agent?: Facts;
  readonly host?: string;
  readonly tool?: Facts;
  readonly decision?: Facts;
  readonly approver?: Facts;
  readonly emitter?: Facts;
  readonly detail?: Facts;
};

export type EntryError = {
  readonly code: 'not_json' | 'too_large' | 'not_canonical' | 'unknown_field' | 'bad_field';
  readonly message: string;
};

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** Largest canonical entry. */
export const MAX_ENTRY_BYTES = 32_768;

const isWhole = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown): boolean => typeof value === 'string' && value.length > 0;
const isFacts = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);

const TYPES: ReadonlySet<unknown> = new Set(ENTRY_TYPES);

const REQUIRED: Readonly<Record<string, (value: unknown) => boolean>> = {
  version: (value) => value === 1,
  index: isWhole,
  id: isText,
  tenant: isText,
  stream: isText,
  stream_seq: isWhole,
  prev: (value) => value === null || (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)),
  type: (value) => TYPES.has(value),
  emitted_ms: isWhole,
  recorded_ms: isWhole,
};
const OPTIONAL: Readonly<Record<string, (value: unknown) => boolean>> = {
  call: isText,
  trace: isText,
  session: isText,
  execution_session: isText,
  agent: isFacts,
  host: isText,
  tool: isFacts,
  decision: isFacts,
  approver: isFacts,
  emitter: isFacts,
  detail: isFacts,
};

const REQUIRED_FIELDS = Object.entries(REQUIRED);
const FIELDS = new Map([...REQUIRED_FIELDS, ...Object.entries(OPTIONAL)]);

function checkFields(value: unknown): Result<AuditEntry, EntryError> {
  const bad = (code: EntryError['code'], message: string) => err({ code, message });
  if (!isFacts(value)) return bad('bad_field', 'entry is not an object');
  const facts = value as Facts;
  for (const [name, test] of REQUIRED_FIELDS) {
    if (!test(facts[name])) return bad('bad_field', `field \`${name}\` is missing or not valid`);
  }
  for (const name of Object.keys(facts)) {
    const test = FIELDS.get(name);
    if (!test) return bad('unknown_field', `field \`${name.slice(0, 80)}\` is not part of an entry`);
    if (!test(facts[name])) return bad('bad_field', `field \`${name}\` is not valid`);
  }
  return ok(value as AuditEntry);
}

/** True when every object below `value` gives its keys in the order of their UTF-16 code units. */
function hasSortedKeys(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(hasSortedKeys);
  const facts = value as Facts;
  let last = '';
  for (const key of Object.keys(facts)) {
    if (key < last) return false;
    const field = facts[key];
    if (typeof field === 'object' && field !== null && !hasSortedKeys(field)) return false;
    last = key;
  }
  return true;
}

/** True when `text`, which gave `value`, is its RFC 8785 form. Most entries are decided by the engine's own writer. */
function isCanonical(text: string, value: unknown): boolean {
  try {
    if (JSON.stringify(value) === text && !text.includes('\\ud') && hasSortedKeys(value)) return true;
  } catch {
    return false;
  }
  return canonicalText(value) === text;
}

function canonicalString(text: string): string {
  if (!text.isWellFormed()) throw new TypeError('lone surrogate');
  return JSON.stringify(text);
}

/** RFC 8785: the ECMAScript form of primitives, members in the order of their names' UTF-16 code units. */
function writeCanonical(value: unknown): string {
  if (typeof value === 'string') return canonicalString(value);
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError('number that is not finite');
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map(writeCanonical).join(',')}]`;
  if (typeof value !== 'object') throw new TypeError('value that JSON does not have');
  const facts = value as Facts;
  let text = '';
  for (const name of Object.keys(facts).sort()) {
    if (facts[name] === undefined) continue;
    text += `${text === '' ? '' : ','}${canonicalString(name)}:${writeCanonical(facts[name])}`;
  }
  return `{${text}}`;
}

/** RFC 8785 text; undefined for what has none (lone surrogates, numbers that are not finite, cycles). */
function canonicalText(value: unknown): string | undefined {
  try {
    return writeCanonical(value);
  } catch {
    return undefined;
  }
}

/** RFC 8785 bytes of any value; undefined for what has none. */
export function canonicalJson(value: unknown): Uint8Array | undefined {
  const text = canonicalText(value);
  return text === undefined ? undefined : encoder.encode(text);
}

/** RFC 8785 bytes of an entry: what is hashed, stored and exported. Refused when a field is unknown or it is over 32 KiB. */
export function canonicalEntryBytes(entry: AuditEntry): Result<Uint8Array, EntryError> {
  const checked = checkFields(entry);
  if (!checked.ok) return checked;
  const text = canonicalText(entry);
  if (text === undefined) return err({ code: 'not_json', message: 'entry cannot be written as JSON' });
  const bytes = encoder.encode(text);
  if (bytes.length > MAX_ENTRY_BYTES) {
    return err({ code: 'too_large', message: `entry has ${bytes.length} bytes; the limit is ${MAX_ENTRY_BYTES}` });
  }
  return ok(bytes);
}

/** Reads an entry; refused unless its bytes are exactly the canonical ones. */
export function parseEntry(bytes: Uint8Array): Result<AuditEntry, EntryError> {
  if (bytes.length > MAX_ENTRY_BYTES) return err({ code: 'too_large', message: 'entry is larger than the limit' });
  let text: string;
  let value: unknown;
  try {
    text = UTF8.decode(bytes);
    value = JSON.parse(text);
  } catch {
    return err({ code: 'not_json', message: 'entry is not JSON in UTF-8' });
  }
  const checked = checkFields(value);
  if (!checked.ok) return checked;
  if (!isCanonical(text, value)) return err({ code: 'not_canonical', message: 'entry is not in canonical form' });
  return checked;
}
