export { type CaseAnswer, evaluateCase, type PolicyCase, runCases } from './cases.ts';
export { decide } from './decide.ts';
export { type Explanation, explain } from './explain.ts';
export { DEFAULT_SECURITY, defaultFacts } from './facts.ts';
export type { Layers } from './layers.ts';
export { loadPolicySet } from './load.ts';
export { actionOf, canonicalTool, isMcpTool } from './tools.ts';
export type {
  Action,
  ApprovalMode,
  AskKind,
  Call,
  Ceilings,
  Decision,
  Effect,
  Facts,
  Grant,
  LayerName,
  LayerSource,
  Obligations,
  PermissionMode,
  PolicyLoadError,
  PolicySet,
  Rule,
  RuleSource,
  SecuritySettings,
} from './types.ts';
