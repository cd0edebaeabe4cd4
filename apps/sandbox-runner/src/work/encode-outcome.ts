import { Outcome, sealTo, ToolResult, type WorkOrder } from '@countersign/protocol';
import type { FileChange } from '../changes/file-change.ts';
import { sentChange } from './sent-change.ts';
import type { RunEnd } from './tool-result.ts';

/** What a host has to say of an order. */
export type Report = {
  readonly states: readonly { state: string; atMs: number }[];
  readonly code: string;
  readonly reason: string;
  readonly end?: RunEnd;
  readonly executedDigest?: Uint8Array;
  /** Changes that were found after a crash. */
  readonly fileChanges?: readonly FileChange[];
};

/** Names of an order that an outcome repeats. */
export type OrderNames = Pick<WorkOrder, 'orderId' | 'callId' | 'expiresAtMs'>;

/** Exact bytes of an outcome. The result is sealed to `sealKey`. */
export async function encodeOutcome(
  order: OrderNames,
  report: Report,
  { host, sealKey }: { readonly host: string; readonly sealKey: string },
): Promise<Uint8Array> {
  const { states, code, reason, end, executedDigest, fileChanges } = report;
  const result = end && ToolResult.encode(end.result).finish();
  const outcome = Outcome.fromPartial({
    orderId: order.orderId,
    callId: order.callId,
    host,
    reports: states.map(({ state, atMs }) => ({ state, atMs: BigInt(atMs) })),
    reason,
    code,
    sealedResult: result ? await sealTo(sealKey, result, order.orderId) : new Uint8Array(),
    executedDigest: executedDigest ?? new Uint8Array(),
    violations: [...(end?.violations ?? [])],
    backend: end?.backend ?? '',
    egress: [...(end?.egress ?? [])],
    fileChanges: (fileChanges ?? end?.fileChanges ?? []).map(sentChange),
  });
  return Outcome.encode(outcome).finish();
}
