import * as z from 'zod/mini';
import { callSchema } from '../api/calls.ts';
import type { LiveCalls } from './live-calls.ts';

const resolvedSchema = z.object({ callId: z.string(), state: z.string(), decidedByName: z._default(z.string(), '') });
/** An answer to a call that needs more of them. */
const answeredSchema = z.object({ callId: z.string(), answered: z.string() });
const RETRY_MS = 2_000;
/** First and longest wait before a list that could not be read is read again. */
const READ_AGAIN_MS = { first: 500, longest: 5_000 } as const;
/** An event that was lost on its way is made up for within this time. */
const REFRESH_MS = 30_000;

function parsed<T>(schema: z.ZodMiniType<T>, data: string): T | undefined {
  try {
    return schema.parse(JSON.parse(data));
  } catch {
    return undefined;
  }
}

/**
 * Feeds the gateway's events to `live` until the returned function is called. Every connect reads the list again. A
 * stream that the browser gave up on (the gateway answered with an error) is opened anew, and a list that could not be read
 * is read again. `onRequests` is told when permission requests may have changed.
 */
export function followEvents(live: LiveCalls, onRequests: () => void): () => void {
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let wait: number = READ_AGAIN_MS.first;
  let readAgain: ReturnType<typeof setTimeout>;
  const open = () => {
    const opened = new EventSource('/v1/events');
    source = opened;
    opened.onopen = () => {
      live.line('live');
      void live.reload();
    };
    opened.onerror = () => {
      live.line('offline');
      if (!live.snapshot().loaded) void live.reload();
      if (opened.readyState !== EventSource.CLOSED) return;
      retry = setTimeout(open, RETRY_MS);
    };
    for (const name of ['approval_request', 'call']) {
      opened.addEventListener(name, ({ data }: MessageEvent<string>) => {
        const partial = parsed(answeredSchema, data);
        const call = partial ? undefined : parsed(callSchema, data);
        if (partial) live.take({ kind: 'answered', callId: partial.callId });
        else live.take(call ? { kind: 'call', call } : { kind: 'reset' });
      });
    }
    opened.addEventListener('approval_resolved', ({ data }: MessageEvent<string>) => {
      const found = parsed(resolvedSchema, data);
      if (found) live.take({ kind: 'resolved', callId: found.callId, state: found.state, by: found.decidedByName });
    });
    for (const name of ['permission_request', 'permission_resolved', 'reset'])
      opened.addEventListener(name, onRequests);
    opened.addEventListener('reset', () => live.take({ kind: 'reset' }));
  };
  open();
  const checkList = () => {
    const failed = live.snapshot().problem !== undefined;
    wait = failed ? Math.min(wait * 2, READ_AGAIN_MS.longest) : READ_AGAIN_MS.first;
    if (failed) void live.reload();
    readAgain = setTimeout(checkList, wait);
  };
  readAgain = setTimeout(checkList, wait);
  const refresh = setInterval(() => void live.reload(), REFRESH_MS);
  return () => {
    clearTimeout(readAgain);
    clearInterval(refresh);
    clearTimeout(retry);
    source?.close();
  };
}
