import type { Result } from '@countersign/kernel';
import type { PathFact, toolSchema } from '@countersign/protocol';
import type { z } from 'zod';

export type ReadArguments = z.infer<ReturnType<typeof toolSchema<'read'>>>;
export type WriteArguments = z.infer<ReturnType<typeof toolSchema<'write'>>>;
export type BashArguments = z.infer<ReturnType<typeof toolSchema<'bash'>>>;

/** A tool with the arguments that its schema accepted. */
export type ToolCall =
  | { readonly tool: 'read'; readonly args: ReadArguments }
  | { readonly tool: 'write'; readonly args: WriteArguments }
  | { readonly tool: 'bash'; readonly args: BashArguments };

/** A failure that the agent may read; `code` is one of ERROR_CODES. */
export type ToolError = { readonly code: string; readonly message: string };

/** Bounds of one run. */
export type ToolLimits = {
  readonly callId: string;
  readonly project: string;
  readonly profile: string;
  /** Path rules and the runner's own masks. */
  readonly denyRead: readonly string[];
  readonly denyWrite: readonly string[];
  /** Wall clock, milliseconds. */
  readonly timeoutMs: number;
  /** Aborts when the run must end: the tool kills the whole process tree before its promise resolves. */
  readonly signal: AbortSignal;
};

/** What came of a command. `sandbox_failed` means that the command did not run. */
export type CommandEnding =
  | {
      readonly ending: 'exited' | 'killed';
      readonly exitCode: number;
      /** Empty unless a signal ended it. */
      readonly signal: string;
      readonly killedBy?: 'timeout' | 'stop';
      readonly stdout: Uint8Array;
      readonly stderr: Uint8Array;
      /** Bytes that the capture itself dropped. */
      readonly truncatedBytes: number;
      readonly violations: readonly string[];
      readonly backend: string;
    }
  | { readonly ending: 'sandbox_failed'; readonly error: ToolError };

export type Inspection = { readonly paths: readonly PathFact[]; readonly diff: string };

export type SelfTest = {
  /** Backends that held; empty when none did. */
  readonly backends: readonly string[];
  /** Why there is none. */
  readonly reason: string;
};

/** What a host can do. Everything runs as the run account, never as host uid 0. */
export type HostTools = {
  readonly bash: (args: BashArguments, limits: ToolLimits) => Promise<CommandEnding>;
  readonly read: (args: ReadArguments, limits: ToolLimits) => Promise<Result<Uint8Array, ToolError>>;
  readonly write: (args: WriteArguments, limits: ToolLimits) => Promise<Result<undefined, ToolError>>;
  /** Facts of the paths a call names and the diff of a write; `pathsOnly` reads no content. */
  readonly inspect: (
    call: ToolCall,
    where: { readonly project: string; readonly denyRead: readonly string[]; readonly pathsOnly: boolean },
  ) => Promise<Result<Inspection, ToolError>>;
  /** Facts of absolute paths, with the digest of their content. */
  readonly facts: (
    paths: readonly string[],
    where: { readonly project: string; readonly denyRead: readonly string[] },
  ) => Promise<Result<readonly PathFact[], ToolError>>;
  readonly selfTest: () => Promise<SelfTest>;
  /** Ends helpers and every process tree that is left. */
  readonly close: () => Promise<void>;
};
