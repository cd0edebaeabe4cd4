import { ERROR_CODES } from '@countersign/protocol/error-codes';

/** Why a command was not started or a file tool did nothing. `code` is one of ERROR_CODES. */
export type SandboxError = { readonly code: string; readonly message: string };

/** Carries a refusal out of nested steps; callers of this folder get a `Result` or an outcome instead. */
export class SandboxRefusal extends Error {
  readonly refusal: SandboxError;

  constructor(refusal: SandboxError) {
    super(refusal.message);
    this.name = 'SandboxRefusal';
    this.refusal = refusal;
  }
}

/** Throws a refusal. */
export function refuse(code: string, message: string): never {
  throw new SandboxRefusal({ code, message });
}

/** Text of anything thrown, as a refusal: what was refused keeps its code, a fault gets that of `fallback`. */
export function refusalOf(error: unknown, fallback: string = ERROR_CODES.sandboxUnavailable): SandboxError {
  if (error instanceof SandboxRefusal) return error.refusal;
  return { code: fallback, message: error instanceof Error ? error.message : String(error) };
}

/** Code of a failed system call, for example `ENOENT`. */
export const errnoOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
