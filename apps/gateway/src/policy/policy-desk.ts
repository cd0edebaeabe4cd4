import { FaultError } from '@countersign/kernel';
import {
  type Call,
  type Ceilings,
  type CommandParts,
  commandParts,
  DEFAULT_SECURITY,
  type Decision,
  decide,
  type Explanation,
  explain,
  type Facts,
  type Layers,
  loadPolicySet,
  type PermissionMode,
  type PolicySet,
  type QueueSource,
} from '@countersign/policy';
import { ERROR_CODES, type Heartbeat } from '@countersign/protocol';
import type { Queues } from '../access/principal.ts';
import type { Laid } from '../layers/session-layers.ts';
import type { Session } from '../record/sessions.ts';
import { policyDigest } from './policy-digest.ts';

const MODES: readonly PermissionMode[] = ['strict', 'dev', 'networked', 'yolo'];

type QueueRules = Readonly<Record<string, QueueSource>>;
/** Wall-clock limits of commands, milliseconds; sandbox.md. The caps hold where `security` states none. */
const DEFAULT_TIMEOUT_MS = 120_000;
const MAX_TIMEOUT_MS = 600_000;
const MAX_BACKGROUND_MS = 86_400_000;

function capOf(stated: unknown, otherwise: number): number {
  if (stated === undefined) return otherwise;
  if (typeof stated === 'number' && Number.isSafeInteger(stated) && stated > 0)
    return Math.min(stated, MAX_BACKGROUND_MS);
  throw new FaultError('`max_command_ms` and `max_background_ms` are whole milliseconds above 0', {
    code: ERROR_CODES.policyRefused,
    publicMessage: '`max_command_ms` and `max_background_ms` are whole milliseconds above 0',
  });
}

/** Nine of ten, from twenty comparisons on, where `security` states nothing. */
function agreementOf({
  guardian_min_agreement: least = 0.9,
  guardian_min_compared: from = 20,
}: PolicyConfig['security']) {
  const fits = typeof least === 'number' && least >= 0 && least <= 1;
  if (fits && typeof from === 'number' && Number.isSafeInteger(from) && from >= 1 && from <= 100)
    return { least, fromComparisons: from };
  throw new FaultError(
    '`guardian_min_agreement` is a share from 0 to 1, `guardian_min_compared` a number from 1 to 100',
    {
      code: 'countersign.gateway.bad_policy',
    },
  );
}

/** The managed layer as it is configured or published. */
export type PolicyConfig = {
  readonly permissions: object;
  readonly ceilings: object;
  readonly security: Readonly<Record<string, unknown>>;
};

/** What is known of the host of a call, beside its heartbeat, and of its session. */
export type JudgedFacts = {
  /** Real paths of the host, or empty. */
  readonly realpaths: Facts['realpaths'];
  readonly grants: Facts['grants'];
  /** Files and saved rules of the session; absent where there are none. */
  readonly laid?: Laid | undefined;
};

const MAX_LAID_SETS = 200;

/** A call as the engine is asked about it. */
type JudgedCall = {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly tighten: string;
  readonly tightenSource: string;
  readonly executor: string;
};

/** What the agent asks to tighten, and INVARIANT: at least an ask where a layer cannot be read. */
function tightened({ tighten, tightenSource }: JudgedCall, unsure: string): Pick<Call, 'tighten'> {
  if (tighten === 'deny') return { tighten: { effect: 'deny', source: tightenSource } };
  if (unsure !== '') return { tighten: { effect: 'ask', source: unsure } };
  return tighten === 'ask' ? { tighten: { effect: 'ask', source: tightenSource } } : {};
}

/** Everybody who may ever decide in a queue may read it. */
function approversOf({ approvers, quorum, escalation, breakGlass }: QueueSource): string[] | undefined {
  if (approvers === undefined && quorum === undefined) return undefined;
  const named = (quorum ?? []).map(({ group }) => group);
  return [...(approvers ?? []), ...named, ...(escalation?.approvers ?? []), ...(breakGlass?.groups ?? [])];
}

const queueGroups = (queues: QueueRules): Queues =>
  Object.fromEntries(
    Object.entries(queues).flatMap(([name, queue]) => {
      const approvers = approversOf(queue);
      return approvers || queue.readers ? [[name, { readers: queue.readers ?? [], approvers: approvers ?? [] }]] : [];
    }),
  );

/** One version of the organisation's policy, checked whole, and the questions the gateway puts to the engine. */
export class ManagedPolicy {
  readonly config: PolicyConfig;
  readonly #managed: Layers['managed'] & object;
  readonly #ceilings: Ceilings;
  readonly #security: Facts['security'];
  readonly #mostMs: { readonly foreground: number; readonly background: number };
  readonly #sets = new Map<PermissionMode, PolicySet>();
  readonly #laidSets = new Map<string, { readonly set: PolicySet; readonly problem: string }>();
  readonly defaultMode: PermissionMode;
  /** What a review that failed does: `deny`, or `ask_human`. Never an approval. */
  readonly onFailedReview: 'deny' | 'ask_human';
  /** A second review of whether a call fits agent, role and task. */
  readonly identityJudge: boolean;
  /** The Guardian gives an opinion on calls that people decide. */
  readonly shadow: boolean;
  /** Agreement with people below which the demotion of a deciding model is proposed. */
  readonly agreement: { readonly least: number; readonly fromComparisons: number };
  readonly hardened: boolean;
  /** `networked` reaches no private address. */
  readonly blockPrivateNetwork: boolean;
  /** Who decides in each queue of the managed layer. */
  readonly queueRules: QueueRules;
  /** Groups that read and decide in each queue of the managed layer. */
  readonly queues: Queues;
  /** Hex SHA-256 of the managed layer; recorded with each decision. */
  readonly digest: string;

  /**
   * `locked`: hardened mode, whatever the configuration says. Throws a FaultError that names every bad rule; a set with one bad
   * rule is refused whole.
   */
  constructor(config: PolicyConfig, locked = false) {
    this.config = config;
    // SECURITY: what isolates nothing, and what stands in, must be allowed by name.
    this.#ceilings = { appGuard: false, backendFallback: false, ...(config.ceilings as Ceilings) };
    this.#managed = { ...config.permissions, ceilings: this.#ceilings } as Layers['managed'] & object;
    const security = config.security as Partial<Facts['security']>;
    this.#security = {
      auto_allow_bash_if_sandboxed:
        security.auto_allow_bash_if_sandboxed ?? DEFAULT_SECURITY.auto_allow_bash_if_sandboxed,
      dangerous_command_guard: security.dangerous_command_guard ?? DEFAULT_SECURITY.dangerous_command_guard,
      block_private_network: security.block_private_network ?? DEFAULT_SECURITY.block_private_network,
      hardened_mode: locked || (security.hardened_mode ?? DEFAULT_SECURITY.hardened_mode),
    };
    this.hardened = this.#security.hardened_mode === true;
    this.blockPrivateNetwork = this.hardened || this.#security.block_private_network === true;
    this.queueRules = this.#managed.queues ?? {};
    this.queues = queueGroups(this.queueRules);
    const stated = config.security as { on_failed_review?: unknown; identity_judge_llm_enabled?: unknown };
    this.onFailedReview = stated.on_failed_review === 'ask_human' ? 'ask_human' : 'deny';
    this.shadow = config.security.guardian_shadow === true;
    this.agreement = agreementOf(config.security);
    this.#mostMs = {
      foreground: capOf(config.security.max_command_ms, MAX_TIMEOUT_MS),
      background: capOf(config.security.max_background_ms, MAX_BACKGROUND_MS),
    };
    this.identityJudge = stated.identity_judge_llm_enabled === true;
    this.digest = policyDigest(config);
    this.defaultMode = (this.#managed as { mode?: PermissionMode }).mode ?? 'strict';
    for (const mode of MODES) this.#sets.set(mode, this.#load(mode));
  }

  /** Wall-clock limit of a call, milliseconds: what it asks for, or the default, below the organisation's cap. */
  timeoutMs(tool: string, asked: unknown): number {
    const background = tool === 'background';
    const most = background ? this.#mostMs.background : this.#mostMs.foreground;
    const usual = background ? most : DEFAULT_TIMEOUT_MS;
    return Math.min(typeof asked === 'number' ? asked : usual, most);
  }

  /** Why a session may not have these modes; undefined when it may. A session starts at the defaults or stricter. */
  ceiling(permissionMode: string, approvalMode: string): string | undefined {
    if (approvalMode === 'full_access' && this.#ceilings.fullAccess !== true)
      return 'approval mode `full_access` is above the ceiling';
    if (MODES.indexOf(permissionMode as PermissionMode) > MODES.indexOf(this.defaultMode)) {
      return `permission mode \`${permissionMode}\` is above the default \`${this.defaultMode}\`; ask for a permission update`;
    }
    return undefined;
  }

  /** Why nobody may give a session these modes; undefined when an operator may. */
  above(session: Pick<Session, 'permission_mode' | 'approval_mode' | 'eternal'>): string | undefined {
    const cap = this.#ceilings.mode ?? 'yolo';
    if (MODES.indexOf(session.permission_mode) > MODES.indexOf(cap))
      return `permission mode \`${session.permission_mode}\` is above the ceiling \`${cap}\``;
    if (session.approval_mode === 'full_access' && this.#ceilings.fullAccess !== true)
      return 'approval mode `full_access` is above the ceiling';
    if (session.eternal && (this.#ceilings.eternal !== true || this.hardened))
      return 'unattended mode is above the ceiling';
    return undefined;
  }

  /** Hosts that the organisation lists itself. */
  get allowedHosts(): readonly string[] {
    return [...(this.#managed.allowedHosts ?? []), ...(this.#managed.defaults?.allowedHosts ?? [])];
  }

  /** Hosts that no layer may add. */
  get forbiddenHosts(): readonly string[] {
    return this.#managed.forbiddenHosts ?? [];
  }

  /** The engine's answer for one call of a session. */
  decide(session: Session, call: JudgedCall, host: Heartbeat, known: JudgedFacts): Decision {
    const { set, question, facts } = this.#question(session, call, host, known);
    return decide(set, question, facts);
  }

  /** The same answer with layers, table row and what was ignored. */
  explain(session: Session, call: JudgedCall, host: Heartbeat, known: JudgedFacts): Explanation {
    const { set, question, facts } = this.#question(session, call, host, known);
    const found = explain(set, question, facts);
    return { ...found, ignoredWidenings: [...found.ignoredWidenings, ...(known.laid?.ignored ?? [])] };
  }

  /** The words of a command and the parts of it that decide; undefined for a call of another tool. */
  partsOf(session: Session, call: JudgedCall, host: Heartbeat, known: JudgedFacts): CommandParts | undefined {
    const { set, question, facts } = this.#question(session, call, host, known);
    return commandParts(set, question, facts);
  }

  /** Why these layers cannot be laid over the policy; empty when they can. */
  layersProblem(session: Session, laid: Laid): string {
    return this.#setOf(session, laid).problem;
  }

  #setOf(session: Session, laid: Laid | undefined): { readonly set: PolicySet; readonly problem: string } {
    const { permission_mode: mode } = session;
    const base = this.#sets.get(mode);
    if (!base) throw new TypeError(`no policy set for mode \`${mode}\``);
    if (laid === undefined || laid.key === '') return { set: base, problem: '' };
    const key = `${mode} ${laid.key}`;
    const known = this.#laidSets.get(key);
    if (known) return known;
    const layers = { ...laid.layers, managed: this.#managed, session: { ...laid.layers.session, mode } };
    const loaded = loadPolicySet(layers, laid.trusted);
    const made = loaded.ok
      ? { set: loaded.value, problem: '' }
      : { set: base, problem: `the layers of the session are refused: ${loaded.error[0]?.message ?? ''}` };
    if (this.#laidSets.size >= MAX_LAID_SETS) this.#laidSets.clear();
    this.#laidSets.set(key, made);
    return made;
  }

  #question(session: Session, call: JudgedCall, host: Heartbeat, { realpaths, grants, laid }: JudgedFacts) {
    const { set, problem } = this.#setOf(session, laid);
    const unsure = problem || laid?.ask || '';
    const tighten = tightened(call, unsure);
    const facts: Facts = {
      project: session.project,
      cwd: typeof call.args.cwd === 'string' ? call.args.cwd : session.project,
      home: host.home,
      platform: host.platform.split('-')[0] ?? 'linux',
      sandboxed: host.backends.some((backend) => backend === 'bubblewrap' || backend === 'seatbelt'),
      approvalMode: session.approval_mode,
      eternal: session.eternal,
      security: this.#security,
      realpaths,
      caseInsensitive: host.platform.startsWith('darwin'),
      grants,
    };
    const executor = call.executor === 'agent' ? { executor: 'agent' as const } : {};
    return { set, question: { tool: call.tool, args: call.args, ...tighten, ...executor }, facts };
  }

  #load(mode: PermissionMode): PolicySet {
    const loaded = loadPolicySet({ managed: this.#managed, session: { mode } });
    if (loaded.ok) return loaded.value;
    const problems = loaded.error.map((problem) => `${problem.layer} ${problem.rule}: ${problem.message}`).join('; ');
    throw new FaultError(`policy is refused: ${problems}`, {
      code: ERROR_CODES.policyRefused,
      publicMessage: `policy is refused: ${problems}`,
    });
  }
}

/** The policy in force, and its version in the record. Replaced whole; a call that is being decided keeps the one it began with. */
export class PolicyDesk {
  #current: ManagedPolicy;
  #version = 0n;

  readonly #locked: boolean;

  /** SECURITY: `locked` is hardened mode that no published or watched policy undoes; only a start without it does. */
  constructor(config: PolicyConfig, locked: boolean) {
    this.#locked = locked;
    this.#current = this.check(config);
  }

  /** The policy that a configuration makes here. Throws a FaultError when a rule is bad. */
  check(config: PolicyConfig): ManagedPolicy {
    return new ManagedPolicy(config, this.#locked);
  }

  get current(): ManagedPolicy {
    return this.#current;
  }

  /** Version of the record's policy document; 0 before it was read. */
  get version(): bigint {
    return this.#version;
  }

  get digest(): string {
    return this.#current.digest;
  }

  /** Takes over a recorded version; an older one than the present changes nothing. */
  take(policy: ManagedPolicy, version: bigint): void {
    if (version <= this.#version) return;
    this.#current = policy;
    this.#version = version;
  }

  /** What a decision stood on, for the append that records it. */
  basis(): { kind: string; key: string; version: bigint } {
    return { kind: 'policy', key: 'managed', version: this.#version };
  }
}
