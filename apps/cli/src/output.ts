import { FaultError } from '@countersign/kernel';
import { type Command, CommanderError } from 'commander';

/**
 * Exit codes of every command: 0 done, 1 refused, denied, failed or problems found, 2 wrong usage or missing input,
 * 3 the installation cannot be reached or is not started, 4 not implemented.
 */
export const EXIT = { ok: 0, refused: 1, usage: 2, unreachable: 3, unimplemented: 4 } as const;

/** An expected refusal that ends a command. */
export class RefusedError extends Error {
  readonly code: string;
  readonly exitCode: number;
  constructor(message: string, code: string, exitCode: number = EXIT.refused) {
    super(message);
    this.name = 'RefusedError';
    this.code = code;
    this.exitCode = exitCode;
  }
}

/** A refusal of how a command was called. */
export const usage = (message: string): RefusedError => new RefusedError(message, 'countersign.cli.usage', EXIT.usage);

/** SECURITY: what a file says may hold control characters; a terminal must not act on them. */
export const plainText = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Zl}\p{Zp}\p{Cf}]/gu,
    (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );

/** Prints one value: JSON on one line with `--json`, else the text. */
export function print(command: Command, value: unknown, text: string): void {
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
}

const UNREACHABLE = ['countersign.cli.gateway_unreachable', 'countersign.cli.not_started', 'countersign.cli.not_ready'];

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof RefusedError) return error.exitCode;
  if (error instanceof FaultError && UNREACHABLE.includes(error.code)) return EXIT.unreachable;
  return EXIT.refused;
}

/** Reports an error on standard error and returns the exit code. */
export function reportError(error: unknown, json: boolean): number {
  const exitCode = exitCodeOf(error);
  if (error instanceof CommanderError) return exitCode;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof FaultError || error instanceof RefusedError ? error.code : 'countersign.cli.failed';
  process.stderr.write(`${json ? JSON.stringify({ error: { code, message } }) : `error: ${message} (${code})`}\n`);
  return exitCode;
}
