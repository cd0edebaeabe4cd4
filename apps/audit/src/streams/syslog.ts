import type { StreamEntry } from './stream-entry.ts';

/** Facility "log audit" of RFC 5424. */
const FACILITY = 13;
const WARNING = 4;
const INFORMATIONAL = 6;
/** RFC 5424 section 6.2: lengths of the header fields. */
const MAX_HOST = 255;
const MAX_MESSAGE_ID = 32;

/** A header field: printable ASCII without blanks, bounded; `-` for nothing. */
const field = (text: string | undefined, limit: number): string =>
  (text ?? '').replace(/[^\x21-\x7e]/g, '_').slice(0, limit) || '-';

/** A value of structured data; `"`, `\` and `]` are escaped, control characters left out. */
const value = (text: string): string => text.replace(/[\p{Cc}]/gu, ' ').replace(/["\\\]]/g, (char) => `\\${char}`);

/** One RFC 5424 message, whose text is the exact entry. `enterpriseId` is the number of the structured data's owner. */
export function syslogOf({ entry, text, leafHash }: StreamEntry, enterpriseId: string): string {
  const isRefusal =
    entry.decision?.effect === 'deny' || entry.type === 'exec.interrupted' || entry.type === 'gap.found';
  const priority = FACILITY * 8 + (isRefusal ? WARNING : INFORMATIONAL);
  const facts = { index: String(entry.index), leaf: leafHash, call: entry.call ?? '', log: entry.tenant };
  const data = Object.entries(facts).map(([name, fact]) => ` ${name}="${value(fact)}"`);
  const time = new Date(entry.recorded_ms).toISOString();
  const header = `<${priority}>1 ${time} ${field(entry.host, MAX_HOST)} countersign - ${field(entry.type, MAX_MESSAGE_ID)}`;
  return `${header} [entry@${enterpriseId}${data.join('')}] \ufeff${text}`;
}

/** Octet counting, RFC 5425 section 4.3: a newline in a message ends nothing. */
export function framed(message: string): Buffer {
  const bytes = Buffer.from(message, 'utf8');
  return Buffer.concat([Buffer.from(`${bytes.length} `), bytes]);
}
