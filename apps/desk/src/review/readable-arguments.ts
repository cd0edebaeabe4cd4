/** The part of a call that a person reads first, and the rest of its arguments. */
export type ReadableArguments = {
  readonly label: 'call.command' | 'call.path' | 'call.url' | 'call.arguments';
  readonly main: string;
  readonly rest: readonly (readonly [name: string, value: string])[];
};

const MAIN: Readonly<Record<string, readonly [string, ReadableArguments['label']]>> = {
  bash: ['command', 'call.command'],
  read: ['path', 'call.path'],
  write: ['path', 'call.path'],
  edit: ['path', 'call.path'],
  delete: ['path', 'call.path'],
  web_fetch: ['url', 'call.url'],
  browser: ['url', 'call.url'],
};

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, undefined, 2));

/** Picks the exact command, path or address out of the arguments; a call without one shows the whole JSON text. */
export function readableArguments(tool: string, text: string): ReadableArguments {
  const whole = { label: 'call.arguments', main: text, rest: [] } as const;
  const [key, label] = MAIN[tool] ?? [];
  if (key === undefined || label === undefined) return whole;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return whole;
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return whole;
  const fields = Object.entries(parsed);
  const found = fields.find(([name]) => name === key);
  if (!found) return whole;
  const rest = fields.filter(([name]) => name !== key).map(([name, value]) => [name, asText(value)] as const);
  return { label, main: asText(found[1]), rest };
}
