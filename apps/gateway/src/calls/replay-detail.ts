import { maskText } from '../masking.ts';

const LIMIT = 4_096;
/** What is written, not where: it decides nothing and may be large or secret. */
const CONTENT: ReadonlySet<string> = new Set([
  'content',
  'oldText',
  'newText',
  'edits',
  'patch',
  'old_text',
  'new_text',
]);

function shown(value: unknown): unknown {
  if (typeof value === 'string') return maskText(value);
  if (Array.isArray(value)) return value.slice(0, 64).map((item) => (typeof item === 'string' ? maskText(item) : null));
  return typeof value === 'number' || typeof value === 'boolean' ? value : null;
}

/**
 * The masked arguments of a call for its entry, so that a policy can be tried on recorded calls. Contents of files are left
 * out; arguments over 4 KiB are left out whole, because a cut command is another command.
 */
export function replayDetail(args: Readonly<Record<string, unknown>>): { arguments?: object } {
  const given = Object.fromEntries(
    Object.entries(args).map(([key, value]) => [key, CONTENT.has(key) ? '' : shown(value)]),
  );
  return JSON.stringify(given).length > LIMIT ? {} : { arguments: given };
}
