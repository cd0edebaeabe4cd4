import type { GuardianServer } from '@countersign/protocol';
import type { Reviewer } from '../review/reviewer.ts';

/** `Resume`: the gateway calls it when a person answered for the session. */
export const resumeRoute =
  (reviewer: Reviewer): GuardianServer['resume'] =>
  (call, callback) =>
    callback(null, { resumed: reviewer.resume(call.request.sessionId) });
