import { Buffer } from 'node:buffer';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { AtStep, Clock } from '@countersign/kernel';
import {
  CallPayload,
  EnvelopeKind,
  ERROR_CODES,
  type Identity,
  type OpenedEnvelope,
  openEnvelope,
  type Receipt,
  runsCommand,
  subjects,
  WorkOrder,
} from '@countersign/protocol';
import { type Logger, traceId } from '@countersign/service-kit';
import type { FileChange } from '../changes/file-change.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { Journal } from '../journal/journal.ts';
import type { OutputPublisher } from '../processes/output-publisher.ts';
import type { ProcessTable } from '../processes/process-table.ts';
import { processTool } from '../processes/process-tool.ts';
import type { BeatWatch } from './beat-watch.ts';
import { encodeOutcome, type OrderNames, type Report } from './encode-outcome.ts';
import { backgroundLimitOf, brokenPrecondition, executeTool, limitsOf } from './execute-tool.ts';
import type { HostTools, ToolLimits } from './host-tools.ts';
import { type InHand, OrdersInHand } from './orders-in-hand.ts';
import type { RunnerStep } from './runner-step.ts';
import type { RunEnd } from './tool-result.ts';
import { type OrderRefusal, startRefusal, type VerifiedOrder, verifyOrder } from './verify-order.ts';

const WAIT_POLL_MS = 100;
const SHUTDOWN = 'runner is shutting down';
const BACKGROUND_FULL = 'too many commands run in the background of this host; stop one first';
const STOPPED_UNSTARTED = 'stopped before it started';

export type OrderRunnerOptions = {
  readonly host: string;
  readonly identity: Identity;
  /** Key that results are sealed to. */
  readonly controlSealKey: () => string;
  /** True for a key of the audit service that counts now. */
  readonly isAudit: (key: string) => boolean;
  /** Version of the roster that this host knows. */
  readonly rosterVersion: () => number;
  readonly isGateway: (issuer: string) => boolean;
  readonly journal: Journal;
  readonly tools: HostTools;
  readonly beats: BeatWatch;
  readonly clock: Clock;
  readonly masks: readonly string[];
  readonly maxRunning: number;
  /** Commands that may go on in the background at once. */
  readonly maxBackground: number;
  /** Why nothing may start on this host; empty when it is ready. */
  readonly unready: () => string;
  /** The journal has a new outcome. */
  readonly outcomeReady: (orderId: string) => void;
  /** There is a report on an order that goes on. */
  readonly progress: (orderId: string, outcome: Uint8Array) => void;
  /** The journal cannot be written any more. */
  readonly onFault: (error: unknown) => void;
  /** Why passkeys keep a verified order from starting; undefined when they do not. */
  readonly unproven: (order: VerifiedOrder) => string | undefined;
  /** Told of the receipt of each order that starts. */
  readonly started: (receipt: Receipt) => void;
  readonly processes: ProcessTable;
  readonly hooks: Pick<Hooks, 'before' | 'after'>;
  readonly output: Pick<OutputPublisher, 'publish' | 'end'>;
  readonly atStep: AtStep<RunnerStep>;
  readonly logger: Logger;
};

/** What to do with the stream's message: `later` leaves it for a redelivery. */
export type Handling = 'done' | 'discard' | 'later';

/** What `perform` resolves with. */
const ENDED = 'ended';

type Run = { readonly hold: InHand; readonly limits: ToolLimits; readonly startedAtMs: number };
type State = Report['states'][number];

const statesOf = (startedAtMs: number, backgroundedAtMs: number | undefined, last?: State): State[] => [
  { state: 'running', atMs: startedAtMs },
  ...(backgroundedAtMs === undefined ? [] : [{ state: 'backgrounded', atMs: backgroundedAtMs }]),
  ...(last ? [last] : []),
];

/** Takes orders from the broker's bytes to a journalled outcome. INVARIANT: nothing runs that is not journalled first. */
export class OrderRunner {
  private readonly options: OrderRunnerOptions;
  /** What may be stopped, and by whom. */
  readonly orders = new OrdersInHand();
  private draining = false;

  constructor(options: OrderRunnerOptions) {
    this.options = options;
  }

  /** Slots in use. */
  get running(): number {
    return this.orders.count('running');
  }

  /** Orders that wait or hold a slot. */
  get taken(): number {
    return this.orders.count('waiting') + this.running;
  }

  /** Reports every order that an earlier process started and did not finish as interrupted. They never run again. */
  async reportInterrupted(): Promise<void> {
    const { journal, clock } = this.options;
    const recovered = await this.recoverChanges();
    for (const { line, backgroundedAtMs } of journal.unfinished()) {
      const states = statesOf(line.at_ms, backgroundedAtMs, { state: 'interrupted', atMs: clock.now() });
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
    const hold = this.draining ? undefined : this.orders.take(order);
    if (!hold) return 'later';
    try {
      return await this.judge(order, opened.value, hold);
    } finally {
      if (hold.state !== 'backgrounded') this.orders.drop(order.orderId);
    }
  }

  /** Takes no more, kills what runs and resolves when every taken order is journalled or given back. */
  async drain(): Promise<void> {
    this.draining = true;
    await this.orders.endAll(SHUTDOWN);
  }

  private async judge(order: WorkOrder, envelope: OpenedEnvelope, hold: InHand): Promise<Handling> {
    const { host, isAudit, isGateway, rosterVersion, journal, beats, clock } = this.options;
    this.options.atStep('order.taken');
    const payload = await this.openPayload(order);
    for (;;) {
      // SECURITY: its key may be revoked while the order waits; a gateway whose key counts sends it again.
      if (!isGateway(envelope.issuer)) return 'discard';
      const knowsOrder = journal.entry(order.orderId) !== undefined;
      const verified = verifyOrder({
        envelope,
        order,
        payload,
        host,
        isAudit,
        rosterVersion: rosterVersion(),
        journal: { createdAtMs: journal.createdAtMs, knowsOrder },
        beat: beats.current(),
        nowMs: clock.now(),
      });
      if (!verified.ok && verified.error.action !== 'wait') return this.refuse(order, verified.error);
      if (this.draining) return 'later';
      if (hold.abort.signal.aborted || this.orders.wasStopped(order.orderId)) {
        return this.reportUnstarted(order, 'withdrawn', '', STOPPED_UNSTARTED);
      }
      if (verified.ok && this.running < this.options.maxRunning && !journal.isFull()) {
        hold.state = 'running';
        hold.isCommand = runsCommand(verified.value.call.tool);
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
    const unproven = this.options.unproven(verified);
    if (unproven === 'wait') return 'later';
    if (unproven !== undefined) return this.reportUnstarted(order, 'refused', ERROR_CODES.assertionsMissing, unproven);
    const notReady = unready();
    if (notReady) return this.reportUnstarted(order, 'refused', ERROR_CODES.sandboxUnavailable, notReady);
    if (verified.call.tool === 'background' && this.orders.count('backgrounded') >= this.options.maxBackground) {
      return this.reportUnstarted(order, 'refused', ERROR_CODES.orderRefused, BACKGROUND_FULL);
    }
    const limits = limitsOf(verified, masks, hold.abort.signal);
    const broken = await brokenPrecondition(tools, verified, limits.denyRead);
    if (broken) return this.reportUnstarted(order, 'refused', broken.code, broken.message);
    const denied = await this.options.hooks.before(verified);
    if (denied) return this.reportUnstarted(order, 'refused', ERROR_CODES.hookDenied, denied);
    const startedAtMs = clock.now();
    const trace = traceId(order.traceparent);
    this.options.logger.info({ call: order.callId, order: order.orderId, tool: order.tool, trace }, 'order starts');
    if (hold.abort.signal.aborted) {
      return this.draining ? 'later' : this.reportUnstarted(order, 'withdrawn', '', STOPPED_UNSTARTED);
    }
    const late = startRefusal(verified, beats.current(), startedAtMs, this.options.rosterVersion());
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
    if (order.receipt) this.options.started(order.receipt);
    const work = this.perform(verified, { hold, limits, startedAtMs });
    if (!hold.isCommand) {
      await work;
      return 'done';
    }
    const away = once(hold.background.signal, 'abort');
    if (verified.call.tool === 'background') hold.background.abort();
    if ((await Promise.race([work, away])) === ENDED) return 'done';
    await this.goOn(order, hold, startedAtMs);
    work.catch(this.options.onFault).finally(() => this.orders.drop(order.orderId));
    return 'done';
  }

  /** Runs what is journalled as started, to its journalled end. */
  private async perform(verified: VerifiedOrder, { hold, limits, startedAtMs }: Run): Promise<typeof ENDED> {
    const { clock, processes, output } = this.options;
    const { order } = verified;
    const { orderId, callId, sessionId } = order;
    if ('command' in verified.call.args) {
      const { command } = verified.call.args;
      const stop = (reason: string) => hold.abort.abort(reason);
      processes.add({ callId, sessionId, command, startedMs: startedAtMs, stop });
    }
    const end = await this.execute(verified, hold, limits);
    processes.remove(callId);
    output.end(orderId);
    this.options.atStep('tool.ended');
    const last = { state: end.state, atMs: clock.now() };
    const states = statesOf(startedAtMs, hold.backgroundedAtMs, last);
    const { code, reason } = end;
    await this.finish(order, { states, code, reason, end, executedDigest: verified.executedDigest });
    await this.options.hooks.after(verified, end);
    return ENDED;
  }

  private async execute({ order, call }: VerifiedOrder, hold: InHand, limits: ToolLimits): Promise<RunEnd> {
    const { tools, processes, output } = this.options;
    const { orderId, callId } = order;
    if (call.tool === 'process') return processTool(processes, call.args, order.sessionId);
    return executeTool(tools, call, limits, {
      background: hold.background.signal,
      backgroundMs: backgroundLimitOf(call, limits),
      onOutput: (piece) => {
        processes.output(callId, piece);
        output.publish({ orderId, callId }, piece);
      },
    });
  }

  /** Gives the slot of a running command back and reports that it goes on. */
  private async goOn(order: WorkOrder, hold: InHand, startedAtMs: number): Promise<void> {
    const { host, controlSealKey, journal, clock, processes, progress } = this.options;
    hold.state = 'backgrounded';
    hold.backgroundedAtMs = clock.now();
    processes.backgrounded(order.callId);
    await journal.backgrounded(order.orderId, hold.backgroundedAtMs);
    const states = statesOf(startedAtMs, hold.backgroundedAtMs);
    const report = { states, code: '', reason: 'goes on in the background' };
    progress(order.orderId, await encodeOutcome(order, report, { host, sealKey: controlSealKey() }));
  }

  private async finish(order: OrderNames, report: Report): Promise<void> {
    const { host, controlSealKey, journal, clock, outcomeReady } = this.options;
    const bytes = await encodeOutcome(order, report, { host, sealKey: controlSealKey() });
    await journal.finished(order.orderId, bytes, clock.now(), Number(order.expiresAtMs));
    this.options.atStep('end.journalled');
    outcomeReady(order.orderId);
  }
}
