import type { Result } from '@countersign/kernel';
import type { PathFact, PolicyFile } from '@countersign/protocol';
import type { CommandLimits } from '@countersign/sandbox';
import type { FileChange } from '../changes/file-change.ts';
import type { SearchProvider } from '../web/search-provider.ts';
import type {
  CallOf,
  ChangeAnswer,
  ChangeCall,
  CommandArguments,
  CommandEnding,
  Inspection,
  InspectWhere,
  OutputPiece,
  SearchAnswer,
  SelfTest,
  ToolCall,
  ToolError,
  ToolLimits,
  WebAnswer,
  WebCall,
} from '../work/host-tools.ts';

/** Bounds without the signal, which travels as a message of its own, and the variables of the runner that names chose. */
export type SentLimits = Omit<ToolLimits, 'signal'> & {
  readonly passed: Readonly<Record<string, string>>;
  readonly resources?: CommandLimits | undefined;
};

type Limited<Input> = Input & { readonly limits: SentLimits };
type Args<Name extends ToolCall['tool']> = Limited<{ readonly args: CallOf<Name>['args'] }>;

/** Line of running work to the runner. */
export type WorkLine = {
  readonly output: (piece: OutputPiece) => void;
  readonly background: AbortSignal;
};

/** Work that the launcher does as the run account: its input and its answer. */
export type LauncherWork = {
  readonly bash: [Limited<{ readonly args: CommandArguments; readonly backgroundMs: number }>, CommandEnding];
  readonly read: [Args<'read'>, Result<Uint8Array, ToolError>];
  readonly search: [Args<'search'>, Result<SearchAnswer, ToolError>];
  readonly web: [
    Limited<{
      readonly call: WebCall;
      readonly search: SearchProvider | undefined;
      readonly browser: string | undefined;
    }>,
    Result<WebAnswer, ToolError>,
  ];
  readonly endSession: [{ readonly sessionId: string }, undefined];
  readonly change: [Limited<{ readonly call: ChangeCall }>, Result<ChangeAnswer, ToolError>];
  readonly recover: [Readonly<Record<string, never>>, readonly FileChange[]];
  readonly inspect: [{ readonly call: ToolCall; readonly where: InspectWhere }, Result<Inspection, ToolError>];
  readonly facts: [
    { readonly paths: readonly string[]; readonly where: Pick<InspectWhere, 'project' | 'denyRead'> },
    Result<readonly PathFact[], ToolError>,
  ];
  readonly policyFiles: [{ readonly project: string }, Result<readonly PolicyFile[], ToolError>];
  /** `appGuardOff` says why the app-guard cannot be used as this account; empty when it can. */
  readonly selfTest: [{ readonly sweep: boolean }, SelfTest & { readonly appGuardOff: string }];
};

export type WorkKind = keyof LauncherWork;

/** To the launcher. */
export type LauncherRequest =
  | { readonly id: number; readonly kind: WorkKind; readonly input: unknown }
  | { readonly id: number; readonly kind: 'stop' | 'background' };

/** From the launcher. */
export type LauncherReply =
  | { readonly id: number; readonly output: OutputPiece }
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly fault: string };
