export { type AtStep, passEachStep } from './at-step.ts';
export {
  CALL_STATES,
  CALL_TRANSITIONS,
  type CallState,
  isCallState,
  isTerminal,
  isTransitionAllowed,
} from './call-state.ts';
export type { Clock } from './clock.ts';
export { FaultError, type FaultOptions } from './fault.ts';
export { type IdPrefix, isSubjectToken, makeId, type RandomBytes } from './id.ts';
export { assertNever, err, ok, type Result } from './result.ts';
