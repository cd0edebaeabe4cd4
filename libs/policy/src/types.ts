import type { RuleIndex } from './rule-index.ts';

/** Permission modes, strictest first. */
export const MODES = ['strict', 'dev', 'networked', 'yolo'] as const;
export type PermissionMode = (typeof MODES)[number];
export type ApprovalMode = 'manual' | 'auto' | 'full_access';
export type Action = 'read' | 'write' | 'delete' | 'execute' | 'network';
export type Effect = 'allow' | 'ask' | 'deny' | 'error';
export type LayerName = 'managed' | 'user' | 'project' | 'local' | 'session';
export const LAYER_NAMES: readonly LayerName[] = ['managed', 'user', 'project', 'local', 'session'];

/** A tool of an MCP server by its raw names; `mcp__<server>__<tool>` is the same as a text. */
export interface McpTool {
  readonly server: string;
  readonly tool: string;
}

export interface ExampleCall {
  readonly tool?: string | McpTool;
  readonly args?: Readonly<Record<string, unknown>>;
}

export interface RuleSource {
  readonly toolName: string | McpTool;
  readonly pattern?: string;
  readonly reason?: string;
  readonly reviewer?: string;
  readonly approvals?: number;
  readonly queue?: string;
  readonly id?: string;
  readonly match?: readonly (string | ExampleCall)[];
  readonly notMatch?: readonly (string | ExampleCall)[];
}

export interface Ceilings {
  readonly mode?: PermissionMode;
  readonly fullAccess?: boolean;
  readonly eternal?: boolean;
  readonly backendFallback?: boolean;
  readonly appGuard?: boolean;
}

export interface RuleLists {
  readonly allowRules?: readonly RuleSource[];
  readonly askRules?: readonly RuleSource[];
  readonly denyRules?: readonly RuleSource[];
}

/** Hours of a day in which approvals are given, `HH:MM` to `HH:MM`. */
export interface TimeWindow {
  /** IANA name. */
  readonly timeZone: string;
  readonly from: string;
  readonly to: string;
  /** `mon` to `sun`; absent: every day. */
  readonly days?: readonly string[];
}

/** Who decides in a queue. */
export interface QueueSource {
  /** People who must approve; more than a rule or quorum names come from `approvers`. */
  readonly approvals?: number;
  /** All of these: so many different people of each group. */
  readonly quorum?: readonly { readonly group: string; readonly count: number }[];
  /** The owner of the session may not approve; the person for whom the agent acts never may. */
  readonly separationOfDuties?: boolean;
  /** Groups of the directory whose people may decide; absent lets every approver. */
  readonly approvers?: readonly string[];
  /** Groups whose people may read its calls beside the approvers. */
  readonly readers?: readonly string[];
  readonly windows?: readonly TimeWindow[];
  /** Groups that may decide too when a call has waited for so long. */
  readonly escalation?: { readonly afterMinutes: number; readonly approvers: readonly string[] };
  /** An answer is due within this time. */
  readonly slaMinutes?: number;
  /** Approvers may let others decide for them. */
  readonly delegation?: boolean;
  /** Groups whose people may approve alone in an emergency, and the hours in which somebody else reviews it. */
  readonly breakGlass?: { readonly groups: readonly string[]; readonly reviewHours: number };
  /** Each approval is signed with a passkey; no grants. */
  readonly passkey?: boolean;
  readonly description?: string;
}

export interface LayerSource extends RuleLists {
  readonly mode?: PermissionMode;
  readonly allowedHosts?: readonly string[];
  readonly sandboxBackend?: 'app-guard' | 'bubblewrap' | 'seatbelt' | 'auto';
  readonly allowBackendFallback?: boolean;
  readonly ceilings?: Ceilings;
  readonly forbiddenHosts?: readonly string[];
  readonly lockedRules?: RuleLists;
  readonly defaults?: LayerSource;
  /** Names of the desk's queues with the approvals each one needs. */
  readonly queues?: Readonly<Record<string, QueueSource>>;
  /** Extends the closed list of assignments that an allow rule survives; only honoured from `managed`. */
  readonly harmlessNames?: readonly string[];
  readonly approvalMode?: ApprovalMode;
  readonly security?: Partial<SecuritySettings>;
  readonly description?: string;
}

export interface SecuritySettings {
  readonly permission_mode?: PermissionMode;
  readonly auto_allow_bash_if_sandboxed: boolean;
  readonly dangerous_command_guard: boolean;
  readonly block_private_network: boolean;
  readonly hardened_mode: boolean;
  readonly identity_judge_llm_enabled?: boolean;
  /** Names that child processes get; empty or absent means the closed default list. */
  readonly env_allowlist?: readonly string[];
}

export interface Rule {
  readonly effect: 'allow' | 'ask' | 'deny';
  readonly layer: LayerName;
  readonly tool: string;
  readonly pattern: string | undefined;
  readonly source: RuleSource;
  readonly label: string;
}

export interface PolicySet {
  readonly rules: readonly Rule[];
  /** The same rules, compiled. */
  readonly index: RuleIndex;
  readonly mode: PermissionMode;
  readonly allowedHosts: readonly string[];
  readonly forbiddenHosts: readonly string[];
  readonly ceilings: Ceilings;
  readonly queues?: Readonly<Record<string, QueueSource>>;
  readonly harmlessNames?: readonly string[];
  readonly backend: string;
  /** Another sandbox may stand in for the backend; hardened mode never lets it. */
  readonly backendFallback: boolean;
  /** Settings that the layers state; they tighten what the session states. */
  readonly security?: Partial<SecuritySettings>;
  readonly ignoredWidenings: readonly string[];
}

export interface PolicyLoadError {
  readonly layer: string;
  readonly rule: string;
  readonly message: string;
  readonly suggestion?: string;
}

export interface Call {
  readonly tool: string | McpTool;
  readonly args: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly tighten?: { readonly effect: 'ask' | 'deny'; readonly source: string };
  /** The agent carries the call out itself: nothing is sandboxed, and a tool that nobody registered is an execute tool. */
  readonly executor?: 'agent';
}

export interface Grant {
  readonly tool: string;
  readonly action: string;
  readonly scope: string;
  readonly rule?: string;
  /** Named in the decision that the grant makes possible. */
  readonly id?: string;
}

/** What answered an ask before anybody was asked. */
export type Lift = 'yolo' | 'full_access' | 'grant' | 'eternal';

/** What the caller knows about the session and host; all of it is data, none of it is looked up. */
export interface Facts {
  readonly project: string;
  readonly cwd: string;
  readonly home: string;
  readonly platform: string;
  readonly sandboxed: boolean;
  readonly approvalMode: ApprovalMode;
  readonly eternal: boolean;
  readonly security: SecuritySettings;
  readonly realpaths: Readonly<Record<string, string>>;
  readonly caseInsensitive: boolean;
  readonly grants: readonly Grant[];
  readonly searchHost?: string;
}

export type AskKind = 'table' | 'rule' | 'risky' | 'unreadable' | 'possible' | 'profile';

/** One judged part of a call. */
export interface Finding {
  readonly effect: 'ask' | 'deny';
  readonly kind: AskKind;
  readonly text: string;
  readonly rule?: Rule;
  /** Grant scopes that would cover this ask. */
  readonly grant?: { readonly tool: string; readonly action: string; readonly scopes: readonly string[] };
  /** Start and end of the command in a shell text that raised it, in UTF-16 units. */
  readonly at?: readonly [start: number, end: number];
}

export interface Obligations {
  readonly profile: string;
  readonly denyRead: readonly string[];
  readonly denyWrite: readonly string[];
  readonly hosts: readonly string[];
  /** For commands: the environment names that the host passes on; everything else is left out. */
  readonly environment?: readonly string[];
  /** For commands: the backend that a layer names; absent is the sandbox of the host's platform. */
  readonly backend?: string;
  /** For commands: another sandbox may stand in for that backend. */
  readonly backendFallback?: boolean;
}

/** Who must answer an ask, by the rules that raised it. */
export interface Review {
  readonly reviewer?: string;
  readonly queue?: string;
  /** How many different people must approve. */
  readonly approvals?: number;
}

export interface Decision {
  readonly effect: Effect;
  readonly reasons: readonly string[];
  readonly decidingRules: readonly string[];
  readonly obligations: Obligations;
  readonly ignoredWidenings: readonly string[];
  readonly askKinds: readonly AskKind[];
  /** Only on an `ask` whose rules or queues say who must answer it. */
  readonly review?: Review;
  /** What lifted asks, if something did. */
  readonly lifts?: readonly Lift[];
  /** Ids of the grants that lifted asks. */
  readonly usedGrants?: readonly string[];
  /** Only on an `ask` that grants could cover whole: the grants that would. */
  readonly grantOffer?: readonly Grant[];
  /** Only on an `ask`: literal allow rules, one for each open part. The caller proves that they allow the call before it offers them. */
  readonly ruleOffer?: readonly { readonly toolName: string; readonly pattern: string }[];
}
