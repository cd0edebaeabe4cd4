import type { Clock } from '@countersign/kernel';
import { peopleNeeded, readHostPins } from './host-pins.ts';
import type { KnownApprovers } from './known-approvers.ts';
import { assertionRefusal } from './verify-assertions.ts';
import type { VerifiedOrder } from './verify-order.ts';

export type AssertionGateOptions = {
  readonly pinsFile: string;
  /** Accounts that may own the pins beside root; only tests name any. */
  readonly pinOwners?: readonly number[];
  readonly approvers: KnownApprovers;
  /** Version of the approver list in force, from the newest beat. */
  readonly approversVersion: () => number;
  readonly clock: Clock;
};

/** Keeps orders that the host's pins protect from starting without the passkeys of enough people. */
export class AssertionGate {
  private readonly options: AssertionGateOptions;

  constructor(options: AssertionGateOptions) {
    this.options = options;
  }

  /** Why nothing may start because of the pins; empty when they are absent or good. */
  notReady(): string {
    const pins = this.pins();
    return pins.ok ? '' : pins.error;
  }

  /** Classes of orders that need passkeys here; -1 without a pins file. */
  classes(): number {
    const pins = this.pins();
    return pins.ok && pins.value ? pins.value.pins.length : -1;
  }

  /**
   * Why this order may not start; undefined when it may, `wait` while this host lacks the newest list of approvers. The pins are
   * read anew for each order.
   */
  refusal({ order, call, executedDigest }: VerifiedOrder): string | undefined {
    const { approvers, approversVersion, clock } = this.options;
    const pins = this.pins();
    if (!pins.ok) return pins.error;
    approvers.take(order.approverList);
    const list = approvers.current();
    const people = peopleNeeded(pins.value, order, call.args);
    // SECURITY: a newer list may have taken the very passkey off that approved this order.
    if (people > 0 && (list?.version ?? 0) < approversVersion()) return 'wait';
    return assertionRefusal({
      order,
      executedDigest,
      list,
      people,
      nowMs: clock.now(),
    });
  }

  private pins() {
    const { pinsFile, pinOwners = [] } = this.options;
    return readHostPins(pinsFile, [0, ...pinOwners]);
  }
}
