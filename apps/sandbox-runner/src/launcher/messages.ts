import type { Result } from '@countersign/kernel';
import type { PathFact } from '@countersign/protocol';
import type {
  BashArguments,
  CommandEnding,
  Inspection,
  ReadArguments,
  SelfTest,
  ToolCall,
  ToolError,
  ToolLimits,
  WriteArguments,
} from '../work/host-tools.ts';

/** Bounds without the signal, which travels as a message of its own. */
export type SentLimits = Omit<ToolLimits, 'signal'>;

type Where = { readonly project: string; readonly denyRead: readonly string[] };

/** Work that the launcher does as the run account: its input and its answer. */
export type LauncherWork = {
  readonly bash: [{ readonly args: BashArguments; readonly limits: SentLimits }, CommandEnding];
  readonly read: [{ readonly args: ReadArguments; readonly limits: SentLimits }, Result<Uint8Array, ToolError>];
  readonly write: [{ readonly args: WriteArguments; readonly limits: SentLimits }, Result<undefined, ToolError>];
  readonly inspect: [
    { readonly call: ToolCall; readonly where: Where & { readonly pathsOnly: boolean } },
    Result<Inspection, ToolError>,
  ];
  readonly facts: [
    { readonly paths: readonly string[]; readonly where: Where },
    Result<readonly PathFact[], ToolError>,
  ];
  readonly selfTest: [{ readonly sweep: boolean }, SelfTest];
};

export type WorkKind = keyof LauncherWork;

/** To the launcher. */
export type LauncherRequest =
  | { readonly id: number; readonly kind: WorkKind; readonly input: unknown }
  | { readonly id: number; readonly kind: 'stop' };

/** From the launcher. */
export type LauncherReply =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly fault: string };
