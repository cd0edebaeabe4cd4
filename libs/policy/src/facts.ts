import type { ApprovalMode, Facts, Grant, SecuritySettings } from './types.ts';

export const DEFAULT_SECURITY: SecuritySettings = {
  auto_allow_bash_if_sandboxed: true,
  dangerous_command_guard: false,
  block_private_network: false,
  hardened_mode: false,
};

/** Facts of an ordinary session; every field may be replaced. */
export function defaultFacts(): Facts {
  return {
    project: '/home/dev/app',
    cwd: '/home/dev/app',
    home: '/home/dev',
    platform: 'linux',
    sandboxed: true,
    approvalMode: 'manual',
    eternal: false,
    security: DEFAULT_SECURITY,
    realpaths: {},
    caseInsensitive: false,
    grants: [],
  };
}

/** The facts that a case or a recorded call states; what is absent is ordinary. */
export interface SessionFacts {
  readonly approvalMode?: ApprovalMode;
  readonly eternal?: boolean;
  readonly security?: Partial<SecuritySettings>;
  readonly sandboxed?: boolean;
  readonly session?: {
    readonly project?: string;
    readonly cwd?: string;
    readonly home?: string;
    readonly platform?: string;
  };
  readonly facts?: { readonly realpaths?: Readonly<Record<string, string>>; readonly caseInsensitive?: boolean };
  readonly grants?: readonly Grant[];
}

/** Completes stated facts with the ordinary ones. */
export function factsOf(stated: SessionFacts): Facts {
  const base = defaultFacts();
  const project = stated.session?.project ?? base.project;
  return {
    ...base,
    project,
    cwd: stated.session?.cwd ?? project,
    home: stated.session?.home ?? base.home,
    platform: stated.session?.platform ?? base.platform,
    sandboxed: stated.sandboxed ?? true,
    approvalMode: stated.approvalMode ?? 'manual',
    eternal: stated.eternal ?? false,
    security: { ...DEFAULT_SECURITY, ...stated.security },
    realpaths: stated.facts?.realpaths ?? {},
    caseInsensitive: stated.facts?.caseInsensitive ?? /^win/i.test(stated.session?.platform ?? ''),
    grants: stated.grants ?? [],
  };
}
