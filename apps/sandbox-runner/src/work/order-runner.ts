import { Buffer } from 'node:buffer';
import { setTimeout as delay } from 'node:timers/promises';
import type { AtStep, Clock } from '@countersign/kernel';
import {
  CallPayload,
  EnvelopeKind,
  ERROR_CODES,
  type Identity,
  type OpenedEnvelope,
  Outcome,
  openEnvelope,
  sealTo,
  subjects,
  ToolResult,
  WorkOrder,
} from '@countersign/protocol';
import { type Logger, traceId } from '@countersign/service-kit';
import type { FileChange } from '../changes/file-change.ts';
import type { Journal } from '../journal/journal.ts';
import type { BeatWatch } from './beat-watch.ts';
import { brokenPrecondition, executeTool, limitsOf } from './execute-tool.ts';
import type { HostTools } from './host-tools.ts';
import type { RunnerStep } from './runner-step.ts';
import { sentChange } from './sent-change.ts';
import type { RunEnd } from './tool-result.ts';
import {
  type BeatFacts,
  covers,
  type OrderRefusal,
  startRefusal,
  type VerifiedOrder,
  verifyOrder,
} from './verify-order.ts';

const WAIT_POLL_MS = 100;
/** Orders remembered as stopped before they came. */
const MAX_STOPPED = 10_000;
const SHUTDOWN = 'runner is shutting down';
const STOPPED_UNSTARTED = 'stopped before it started';

export type OrderRunnerOptions = {
  readonly host: string;
  readonly identity: Identity;
  /** Key that results are sealed to. */
  readonly controlSealKey: string;
  readonly auditKey: string;
  readonly isGateway: (issuer: string) => boolean;
  readonly journal: Journal;
  readonly tools: HostTools;
  readonly beats: BeatWatch;
  readonly clock: Clock;
  readonly masks: readonly string[];
  readonly maxRunning: number;
  /** Why nothing may start on this host; empty when it is ready. */
  readonly unready: () => string;
  /** The journal has a new outcome. */
  readonly outcomeReady: (orderId: string) => void;
  readonly atStep: AtStep<RunnerStep>;
  readonly logger: Logger;
};

/** What to do with the stream's message: `later` leaves it for a redelivery. */
export type Handling = 'done' | 'discard' | 'later';

type InHand = {
  readonly callId: string;
  readonly order: WorkOrder;
  readonly abort: AbortController;
  running: boolean;
};

type Report = {
  readonly states: readonly { state: string; atMs: number }[];
  readonly code: string;
  readonly reason: string;
  readonly end?: RunEnd;
  readonly executedDigest?: Uint8Array;
  /** Changes that were found after a crash. */
  readonly fileChanges?: readonly FileChange[];
};

/** Takes orders from the broker's bytes to a journalled outcome. INVARIANT: nothing runs that is not journalled first. */
export class OrderRunner {
  private readonly options: OrderRunnerOptions;
  private readonly inHand = new Map<string, InHand>();
  private readonly stopped = new Set<string>();
  private draining = false;

  constructor(options: OrderRunnerOptions) {
    this.options = options;
  }

  /** Slots in use. */
  get running(): number {
    return [...this.inHand.values()].filter(({ running }) => running).length;
  }

  /** Orders taken and not finished, waiting ones included. */
  get taken(): number {
    return this.inHand.size;
  }

  /** Reports every order that an earlier process started and did not finish as interrupted. They never run again. */
  async reportInterrupted(): Promise<void> {
    const { journal, clock } = this.options;
    const recovered = await this.recoverChanges();
    for (const line of journal.unfinished()) {
      const states = [
        { state: 'running', atMs: line.at_ms },
        { state: 'interrupted', atMs: clock.now() },
      ];
      const reason = 'runner ended while the call ran; whether it took effect is unknown';
      const order = { orderId: line.order_id, callId: line.call_id, expiresAtMs: BigInt(line.expires_at_ms) };
      const fileChanges = recovered.filter(({ callId }) => callId === line.call_id);
      await this.finish(order, { states, code: ERROR_CODES.interrupted, reason, fileChanges });
    }
  }

  private async recoverChanges(): Promise<readonly FileChange[]> {
    try {
      return await this.options.tools.recoverChanges();
    } catch (error) {
      this.options.logger.warn({ err: error }, 'file changes of an ended process are not settled');
      return [];
    }
  }

  /** Handles one message of the work subject. Rejects only when the journal cannot be written. */
  async handle(bytes: Uint8Array, deliveredOn: string): Promise<Handling> {
    const { host, isGateway, clock, logger } = this.options;
    if (deliveredOn !== subjects.work(host)) return 'discard';
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.ORDER,
      subject: deliveredOn,
      issuer: isGateway,
      nowMs: clock.now(),
    });
    if (!opened.ok) {
      logger.warn({ code: opened.error.code }, 'order envelope is refused');
      return opened.error.code === 'from_the_future' ? 'later' : 'discard';
    }
    let order: WorkOrder;
    try {
      order = WorkOrder.decode(opened.value.body);
    } catch {
      return 'discard';
    }
    if (this.draining || this.inHand.has(order.orderId)) return 'later';
    const hold: InHand = { callId: order.callId, order, abort: new AbortController(), running: false };
    this.inHand.set(order.orderId, hold);
    try {
      return await this.judge(order, opened.value, hold);
    } finally {
      this.inHand.delete(order.orderId);
    }
  }

  /** Ends a call: kills it when it runs, withdraws its order when it does not. */
  stop(orderId: string, callId: string, reason: string): void {
    const hold = this.inHand.get(orderId);
    if (hold && hold.callId !== callId) return;
    hold?.abort.abort(reason || 'stopped');
    if (hold?.running) return;
    this.stopped.add(orderId);
    const [oldest] = this.stopped;
    if (this.stopped.size > MAX_STOPPED && oldest !== undefined) this.stopped.delete(oldest);
  }

  /** Stops what a beat says must not go on: revoked orders, and what runs in a scope that was frozen with everything in it. */
  keepTo(beat: BeatFacts): void {
    for (const [orderId, { order, callId }] of this.inHand) {
      const scope = beat.stoppedScopes.find((one) => covers(one, order));
      if (scope !== undefined) this.stop(orderId, callId, `\`${scope}\` is frozen`);
      else if (beat.revokedOrders.includes(orderId)) this.stop(orderId, callId, 'order was revoked');
    }
  }

  /** Takes no more, kills what runs and resolves when every taken order is journalled or given back. */
  async drain(): Promise<void> {
    this.draining = true;
    for (const hold of this.inHand.values()) hold.abort.abort(SHUTDOWN);
    while (this.inHand.size > 0) await delay(20);
  }

  private async judge(order: WorkOrder, envelope: OpenedEnvelope, hold: InHand): Promise<Handling> {
    const { host, auditKey, journal, beats, clock } = this.options;
    this.options.atStep('order.taken');
    const payload = await this.openPayload(order);
    for (;;) {
      const knowsOrder = journal.entry(order.orderId) !== undefined;
      const verified = verifyOrder({
        envelope,
        order,
        payload,
        host,
        auditKey,
        journal: { createdAtMs: journal.createdAtMs, knowsOrder },
        beat: beats.current(),
        nowMs: clock.now(),
      });
      if (!verified.ok && verified.error.action !== 'wait') return this.refuse(order, verified.error);
      if (this.draining) return 'later';
      if (hold.abort.signal.aborted || this.stopped.has(order.orderId)) {
        return this.reportUnstarted(order, 'withdrawn', '', STOPPED_UNSTARTED);
      }
      if (verified.ok && this.running < this.options.maxRunning && !journal.isFull()) {
        hold.running = true;
        return this.run(verified.value, hold);
      }
      await delay(WAIT_POLL_MS);
    }
  }

  private async openPayload(order: WorkOrder): Promise<CallPayload | undefined> {
    try {
      return CallPayload.decode(await this.options.identity.open(order.sealedPayload, order.orderId));
    } catch {
      return undefined;
    }
  }

  private async refuse(order: WorkOrder, refusal: OrderRefusal): Promise<Handling> {
    const { action, code, errorCode, message } = refusal;
    this.options.logger.warn({ code, action }, 'order does not run');
    if (action === 'discard') return 'discard';
    if (action === 'repeat') {
      this.options.outcomeReady(order.orderId);
      return 'done';
    }
    return this.reportUnstarted(order, action, errorCode, message);
  }

  /** Journals that nothing ran. */
  private async reportUnstarted(order: WorkOrder, state: string, code: string, reason: string): Promise<Handling> {
    await this.finish(order, { states: [{ state, atMs: this.options.clock.now() }], code, reason });
    return 'done';
  }

  /** Holds a slot. Checks what needs the host, then the moment once more, journals the start, and only then runs. */
  private async run(verified: VerifiedOrder, hold: InHand): Promise<Handling> {
    const { journal, tools, beats, clock, masks, unready } = this.options;
    const { order } = verified;
    const notReady = unready();
    if (notReady) return this.reportUnstarted(order, 'refused', ERROR_CODES.sandboxUnavailable, notReady);
    const limits = limitsOf(verified, masks, hold.abort.signal);
    const broken = await brokenPrecondition(tools, verified, limits.denyRead);
    if (broken) return this.reportUnstarted(order, 'refused', broken.code, broken.message);
    const startedAtMs = clock.now();
    const trace = traceId(order.traceparent);
    this.options.logger.info({ call: order.callId, order: order.orderId, tool: order.tool, trace }, 'order starts');
    if (hold.abort.signal.aborted) {
      return this.draining ? 'later' : this.reportUnstarted(order, 'withdrawn', '', STOPPED_UNSTARTED);
    }
    const late = startRefusal(verified, beats.current(), startedAtMs);
    if (late) return late.action === 'wait' ? 'later' : this.refuse(order, late);
    this.options.atStep('order.verified');
    await journal.started({
      order_id: order.orderId,
      call_id: order.callId,
      call_digest: Buffer.from(verified.executedDigest).toString('hex'),
      at_ms: startedAtMs,
      expires_at_ms: Number(order.expiresAtMs),
    });
    this.options.atStep('start.journalled');
    const end = await executeTool(tools, verified.call, limits);
    this.options.atStep('tool.ended');
    const states = [
      { state: 'running', atMs: startedAtMs },
      { state: end.state, atMs: clock.now() },
    ];
    const { code, reason } = end;
    await this.finish(order, { states, code, reason, end, executedDigest: verified.executedDigest });
    return 'done';
  }

  private async finish(
    order: Pick<WorkOrder, 'orderId' | 'callId' | 'expiresAtMs'>,
    { states, code, reason, end, executedDigest, fileChanges }: Report,
  ): Promise<void> {
    const { host, controlSealKey, journal, clock, outcomeReady } = this.options;
    const result = end && ToolResult.encode(end.result).finish();
    const outcome = Outcome.fromPartial({
      orderId: order.orderId,
      callId: order.callId,
      host,
      reports: states.map(({ state, atMs }) => ({ state, atMs: BigInt(atMs) })),
      reason,
      code,
      sealedResult: result ? await sealTo(controlSealKey, result, order.orderId) : new Uint8Array(),
      executedDigest: executedDigest ?? new Uint8Array(),
      violations: [...(end?.violations ?? [])],
      backend: end?.backend ?? '',
      egress: [...(end?.egress ?? [])],
      fileChanges: (fileChanges ?? end?.fileChanges ?? []).map(sentChange),
    });
    const bytes = Outcome.encode(outcome).finish();
    await journal.finished(order.orderId, bytes, clock.now(), Number(order.expiresAtMs));
    this.options.atStep('end.journalled');
    outcomeReady(order.orderId);
  }
}
