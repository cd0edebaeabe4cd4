import type { Action, Facts, PolicySet } from './types.ts';

/** Whether execution is bounded by a real sandbox. */
export const isSandboxed = (set: PolicySet, facts: Facts, profile: string): boolean =>
  facts.sandboxed && set.backend !== 'app-guard' && profile !== 'full-access';

/** The mode table of section 4, for calls that no rule matched. Hosts are judged by the caller. */
export function tableAllows(action: Action, set: PolicySet, facts: Facts, sandboxed: boolean): boolean {
  if (action === 'read' || set.mode === 'yolo') return true;
  if (action !== 'execute' || set.mode === 'strict') return false;
  return sandboxed && facts.security.auto_allow_bash_if_sandboxed;
}
