import type { CallDetail } from './api.ts';

/** The part of a call that a person reads first, and the rest of its arguments. */
export type ReadableArguments = {
  readonly label: string;
  readonly main: string;
  readonly rest: readonly [string, string][];
};

const MAIN: Readonly<Record<string, readonly [string, string]>> = {
  bash: ['command', 'Command'],
  read: ['path', 'Path'],
  write: ['path', 'Path'],
};

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Picks the exact command or path out of the arguments; a tool without one shows the whole JSON text. */
export function readableArguments(call: CallDetail): ReadableArguments {
  const whole = { label: 'Arguments', main: call.arguments, rest: [] };
  const main = MAIN[call.tool];
  if (!main) return whole;
  let parsed: unknown;
  try {
    parsed = JSON.parse(call.arguments);
  } catch {
    return whole;
  }
  if (typeof parsed !== 'object' || parsed === null) return whole;
  const fields = Object.entries(parsed);
  const [key, label] = main;
  const found = fields.find(([name]) => name === key);
  if (!found) return whole;
  return {
    label,
    main: asText(found[1]),
    rest: fields.filter(([name]) => name !== key).map(([name, value]) => [name, asText(value)] as const),
  } as ReadableArguments;
}
