/** Waits between sendings: short until the first answer, then long, because a resend is answered from the record. */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/** Sends at once and again with growing waits until `stop`. Sending must be idempotent. */
export function resendUntilStopped(send: () => void): { answered: () => void; stop: () => void } {
  let waitMs = FIRST_WAIT_MS;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const schedule = () => {
    clearTimeout(timer);
    if (stopped) return;
    timer = setTimeout(() => {
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
      send();
      schedule();
    }, waitMs);
  };
  send();
  schedule();
  return {
    answered: () => {
      waitMs = LONGEST_WAIT_MS;
      schedule();
    },
    stop: () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
