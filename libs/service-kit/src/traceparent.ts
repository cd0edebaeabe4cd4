import { randomBytes } from 'node:crypto';

const FORM = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** A fresh W3C trace context, sampled. */
export const newTraceparent = (): string =>
  `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`;

/** Trace id of a W3C trace context; undefined when it is malformed or all zero. */
export function traceId(traceparent: string): string | undefined {
  const id = FORM.exec(traceparent)?.[1];
  return id === undefined || /^0+$/.test(id) ? undefined : id;
}

/** The same trace with a fresh span; a new trace when `traceparent` is malformed. */
export function childTraceparent(traceparent: string): string {
  const id = traceId(traceparent);
  return id === undefined ? newTraceparent() : `00-${id}-${randomBytes(8).toString('hex')}-01`;
}
