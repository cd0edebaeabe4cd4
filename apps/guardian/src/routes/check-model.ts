import type { GuardianServer } from '@countersign/protocol';
import type { Reviewer } from '../review/reviewer.ts';

/** `CheckModel`: what a session is told when it opens. */
export const checkModelRoute =
  (reviewer: Reviewer): GuardianServer['checkModel'] =>
  (call, callback) => {
    const { provider, model, problem } = reviewer.checkModel(call.request);
    callback(null, { usable: problem === undefined, reason: problem ?? '', provider, model });
  };
