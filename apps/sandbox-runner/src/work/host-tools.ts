import type { Result } from '@countersign/kernel';
import type { PathFact, PolicyFile, ToolName, toolSchema } from '@countersign/protocol';
import type { z } from 'zod';
import type { FileChange } from '../changes/file-change.ts';

type ArgumentsOf<Name extends ToolName> = z.infer<ReturnType<typeof toolSchema<Name>>>;

/** A tool with the arguments that its schema accepted. */
export type ToolCall = { [Name in ToolName]: { readonly tool: Name; readonly args: ArgumentsOf<Name> } }[ToolName];

/** The call of one tool. */
export type CallOf<Name extends ToolName> = Extract<ToolCall, { readonly tool: Name }>;

/** What a command is started with. */
export type CommandArguments = Pick<CallOf<'bash'>['args'], 'command' | 'cwd'>;

/** A call that changes one file. */
export type ChangeCall = CallOf<'write' | 'edit' | 'delete' | 'rollback'>;

/** A call that reads the web. */
export type WebCall = CallOf<'web_fetch' | 'web_search' | 'browser'>;

/** A failure that the agent may read; `code` is one of ERROR_CODES. */
export type ToolError = { readonly code: string; readonly message: string };

/** Bounds of one run. */
export type ToolLimits = {
  readonly callId: string;
  readonly sessionId: string;
  readonly project: string;
  readonly profile: string;
  /** Path rules and the runner's own masks. */
  readonly denyRead: readonly string[];
  readonly denyWrite: readonly string[];
  /** Host patterns that the profile `networked` reaches. */
  readonly hosts?: readonly string[];
  /** No private address is reached, also no listed one. */
  readonly blockPrivateNetwork?: boolean;
  /** Only a named minimum of the host can be read, and no wider profile or weaker backend is used. */
  readonly hardened?: boolean;
  /** The backend that the order names; empty is the sandbox of the platform. */
  readonly backend?: string;
  /** Another sandbox may stand in for it. */
  readonly backendFallback?: boolean;
  /** Names of variables that a command gets from this host besides the short list; `*` stands for any ending. */
  readonly environmentNames?: readonly string[];
  /** Wall clock, milliseconds. */
  readonly timeoutMs: number;
  /** SHA-256 that the changed file must have, or that there must be none; absent when the decision did not look at it. */
  readonly expected?: Uint8Array | 'absent';
  /** Aborts when the run must end: the tool kills the whole process tree before its promise resolves. */
  readonly signal: AbortSignal;
};

/** Output that came since the piece before, and how many bytes of it were left out. */
export type OutputPiece = {
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly droppedBytes: number;
};

/** Line to a command while it runs. */
export type LiveCommand = {
  readonly onOutput: (piece: OutputPiece) => void;
  /** Aborts when the command goes on in the background: from that moment `backgroundMs` bound it. */
  readonly background: AbortSignal;
  readonly backgroundMs: number;
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
      /** A line for each connection that the command asked the proxy for. */
      readonly egress?: readonly string[];
    }
  | { readonly ending: 'sandbox_failed'; readonly error: ToolError };

/** A change that took place and its unified diff. */
export type ChangeAnswer = { readonly change: FileChange; readonly diff: string };

/** Lines `path:line:text`, and what the reader must know of them. */
export type SearchAnswer = { readonly content: string; readonly note: string };

/** Text from the web, marked as somebody else's, and what the reader must know of it. */
export type WebAnswer = {
  /** Bytes are a picture. */
  readonly content: string | Uint8Array;
  readonly note: string;
  /** A line for each hop. */
  readonly egress: readonly string[];
};

/** Place and rules of an inspection. */
export type InspectWhere = {
  readonly project: string;
  readonly denyRead: readonly string[];
  readonly denyWrite: readonly string[];
  /** Real paths only: neither content nor digests are read. */
  readonly pathsOnly: boolean;
  /** Of a command: what it starts. */
  readonly named?: { readonly programs: readonly string[]; readonly files: readonly string[] };
};

export type Inspection = { readonly paths: readonly PathFact[]; readonly diff: string };

export type SelfTest = {
  /** Backends that held; empty when none did. */
  readonly backends: readonly string[];
  /** Why there is none. */
  readonly reason: string;
};

/** What a host can do. Everything runs as the run account, never as host uid 0. */
export type HostTools = {
  readonly bash: (args: CommandArguments, limits: ToolLimits, live?: LiveCommand) => Promise<CommandEnding>;
  readonly read: (args: CallOf<'read'>['args'], limits: ToolLimits) => Promise<Result<Uint8Array, ToolError>>;
  readonly search: (args: CallOf<'search'>['args'], limits: ToolLimits) => Promise<Result<SearchAnswer, ToolError>>;
  /** Reads the web as the run account; every hop is judged again. */
  readonly web: (call: WebCall, limits: ToolLimits) => Promise<Result<WebAnswer, ToolError>>;
  /** Ends what the tools keep for a session. */
  readonly endSession: (sessionId: string) => Promise<void>;
  readonly change: (call: ChangeCall, limits: ToolLimits) => Promise<Result<ChangeAnswer, ToolError>>;
  /** Settles the file changes that an ended process left in the middle; returns those that took place. */
  readonly recoverChanges: () => Promise<readonly FileChange[]>;
  /** Facts of the path a call names and the diff it would make; `pathsOnly` reads no content. */
  readonly inspect: (call: ToolCall, where: InspectWhere) => Promise<Result<Inspection, ToolError>>;
  /** Facts of absolute paths, with the digest of their content. */
  readonly facts: (
    paths: readonly string[],
    where: { readonly project: string; readonly denyRead: readonly string[] },
  ) => Promise<Result<readonly PathFact[], ToolError>>;
  /** The permission files of a project and of the home of the run account. */
  readonly policyFiles: (project: string) => Promise<Result<readonly PolicyFile[], ToolError>>;
  readonly selfTest: () => Promise<SelfTest>;
  /** Ends helpers and every process tree that is left. */
  readonly close: () => Promise<void>;
};
