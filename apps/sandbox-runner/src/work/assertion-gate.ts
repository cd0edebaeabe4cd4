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

  /** Why this order may not start; undefined when it may. The pins are read anew for each order. */
  refusal({ order, call, executedDigest }: VerifiedOrder): string | undefined {
    const { approvers, clock } = this.options;
    const pins = this.pins();
    if (!pins.ok) return pins.error;
    approvers.take(order.approverList);
    return assertionRefusal({
      order,
      executedDigest,
      list: approvers.current(),
      people: peopleNeeded(pins.value, order, call.args),
      nowMs: clock.now(),
    });
  }

  private pins() {
    const { pinsFile, pinOwners = [] } = this.options;
    return readHostPins(pinsFile, [0, ...pinOwners]);
  }
}
