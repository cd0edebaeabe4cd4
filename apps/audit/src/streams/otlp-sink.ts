import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';
import type { Sink, StreamEntry } from './stream-entry.ts';

/** Severity numbers of the OpenTelemetry log model. */
const INFO = 9;
const WARN = 13;
const SAMPLED = 1;
/** An entry is no span; it joins by the trace alone. */
const NO_SPAN = '0'.repeat(16);
const REQUEST_MS = 10_000;
/** Result code of an export that was taken. */
const TAKEN = 0;

const hrTime = (ms: number): [number, number] => [Math.floor(ms / 1_000), (ms % 1_000) * 1_000_000];

/** A log record whose body is the exact entry; a trace id joins it with the spans of its call. */
function recordOf({ entry, text, leafHash }: StreamEntry, resource: ReadableLogRecord['resource']): ReadableLogRecord {
  const isRefusal = entry.decision?.effect === 'deny' || entry.type === 'exec.interrupted';
  const traceId = entry.trace !== undefined && /^[0-9a-f]{32}$/.test(entry.trace) ? entry.trace : undefined;
  return {
    hrTime: hrTime(entry.emitted_ms),
    hrTimeObserved: hrTime(entry.recorded_ms),
    severityNumber: isRefusal ? WARN : INFO,
    severityText: isRefusal ? 'WARN' : 'INFO',
    body: text,
    eventName: `countersign.${entry.type}`,
    resource,
    instrumentationScope: { name: 'countersign.audit' },
    attributes: {
      'log.record.uid': entry.id,
      'countersign.log': entry.tenant,
      'countersign.index': entry.index,
      'countersign.leaf_hash': leafHash,
      ...(entry.call === undefined ? {} : { 'countersign.call': entry.call }),
      ...(entry.session === undefined ? {} : { 'countersign.session': entry.session }),
    },
    droppedAttributesCount: 0,
    ...(traceId === undefined ? {} : { spanContext: { traceId, spanId: NO_SPAN, traceFlags: SAMPLED } }),
  } as ReadableLogRecord;
}

/** OpenTelemetry logs (OTLP over HTTP, protobuf). A batch counts as taken when the collector answered that it took it. */
export function otlpSink(target: { readonly url: string; readonly headers: Readonly<Record<string, string>> }): Sink {
  const resource = resourceFromAttributes({ 'service.name': 'countersign-audit' });
  const exporter = new OTLPLogExporter({ url: target.url, headers: { ...target.headers }, timeoutMillis: REQUEST_MS });
  return {
    send: (entries) =>
      new Promise((resolve, reject) => {
        exporter.export(
          entries.map((entry) => recordOf(entry, resource)),
          ({ code, error }) => {
            if ((code as number) === TAKEN) return resolve();
            const fault = { code: ERROR_CODES.auditStreamFailed, retryable: true, cause: error };
            return reject(
              new FaultError(`collector did not take the entries: ${error?.message ?? 'no reason'}`, fault),
            );
          },
        );
      }),
    close: () => exporter.shutdown(),
  };
}
