export type { CallOutcome, CallRequest, LiveOutput, SubmittedCall } from './call.ts';
export { type Agent, connectAgent } from './connect-agent.ts';
export type { Report } from './report.ts';
export type { SessionRefused, SessionRequest } from './session.ts';
export type { PermissionUpdate, PermissionUpdateRequest } from './session-command.ts';
export type { Turn } from './turn.ts';
