export { type CaseAnswer, evaluateCase, type PolicyCase, runCases } from './cases.ts';
export { type CommandParts, type CommandToken, commandParts, type DecisivePart } from './command-parts.ts';
export { decide } from './decide.ts';
export { type Explanation, explain } from './explain.ts';
export { DEFAULT_SECURITY, defaultFacts, factsOf, type SessionFacts } from './facts.ts';
export { describeQueue } from './governance/describe-queue.ts';
export { explainAnswer, type WouldApprove } from './governance/explain-answer.ts';
export {
  type AnswerRefusal,
  type ApprovalFacts,
  type Approver,
  answerRefusal,
  answersFor,
  isEscalated,
  type Standing,
  standingOf,
} from './governance/judge-answers.ts';
export { importLingxiao } from './import-lingxiao.ts';
export type { Layers, Trusted } from './layers.ts';
export { loadPolicySet } from './load.ts';
export { type NamedPrograms, namedPrograms } from './named-programs.ts';
export { type PolicyFile, type PolicyFileProblem, parsePolicyFile, showProblem } from './policy-file.ts';
export { POLICY_SCHEMA } from './policy-schema.ts';
export {
  type RecordedCall,
  type SimulatedChange,
  type SimulationReport,
  simulate,
} from './simulate.ts';
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
  Lift,
  Obligations,
  PermissionMode,
  PolicyLoadError,
  PolicySet,
  QueueSource,
  Review,
  Rule,
  RuleSource,
  SecuritySettings,
  TimeWindow,
} from './types.ts';
