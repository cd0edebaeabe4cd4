import { Readable } from 'node:stream';
import { ERROR_CODES } from '@countersign/protocol';
import { hasRole, type Principal, seesAll, visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import type { Decides, FramedEvent } from '../event-hub.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { watchReader } from './reader-watch.ts';

const KEEPALIVE_MS = 15_000;

/** Whether a reader, as he is at that moment, may decide on a call. */
export const decidesFor =
  (gateway: Gateway, reader: () => Principal): Decides =>
  (call) => {
    const { roles, scope } = ACCESS.decide;
    const principal = reader();
    return (
      hasRole(principal, roles) &&
      principal.scopes.includes(scope) &&
      call.principal !== principal.name &&
      visible(principal, call, gateway.queues)
    );
  };

function eventRoute(app: Http, gateway: Gateway): void {
  /**
   * Server-sent events with resume by `Last-Event-ID`; `reset` tells the reader to list again. Shows what its reader may see by
   * now, and ends within six seconds once the token, session or role that opened it counts no more.
   */
  app.get('/v1/events', { config: { access: ACCESS.read } }, (request, reply) => {
    let principal = principalOf(request);
    const last = Number(request.headers['last-event-id'] ?? Number.NaN);
    const missed = Number.isSafeInteger(last) ? gateway.hub.since(last) : [];
    const { raw } = reply;
    const write = (event: FramedEvent) => {
      if (visible(principal, event, gateway.queues)) raw.write(event.frame);
    };
    const unfollow = gateway.hub.follow(
      (event) => {
        // A reader that does not keep up is cut off; it comes back and resumes.
        if (raw.writableLength > 1_048_576) raw.destroy();
        else if (event) write(event);
        else raw.write('event: reset\ndata: {}\n\n');
      },
      decidesFor(gateway, () => principal),
    );
    if (!unfollow) {
      reply.code(503).send();
      return;
    }
    reply.hijack();
    for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value);
    raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
    raw.write(': open\n\n');
    if (missed === undefined) raw.write('event: reset\ndata: {}\n\n');
    else for (const event of missed) write(event);
    const keepalive = setInterval(() => raw.write(': keepalive\n\n'), KEEPALIVE_MS);
    const unwatch = watchReader(gateway, request, {
      onReader: (now) => {
        principal = now;
      },
      onGone: () => raw.destroy(),
    });
    raw.on('close', () => {
      clearInterval(keepalive);
      unwatch();
      unfollow();
    });
  });
}

const HASH_BYTES = 32;

async function* exportLines(gateway: Gateway): AsyncGenerator<string> {
  for await (const chunk of gateway.audit.exportLog()) {
    for (let at = 0; at < chunk.dropped.length; at += HASH_BYTES)
      yield `${JSON.stringify({ leaf_hash: Buffer.from(chunk.dropped.subarray(at, at + HASH_BYTES)).toString('base64') })}\n`;
    for (const leaf of chunk.leaves) yield `${JSON.stringify({ leaf: Buffer.from(leaf).toString('base64') })}\n`;
    if (chunk.checkpoint !== '') yield `${JSON.stringify({ checkpoint: chunk.checkpoint })}\n`;
  }
}

/** Routes that answer with a stream. */
export function addStreams(app: Http, gateway: Gateway): void {
  eventRoute(app, gateway);
  /** The whole log as NDJSON: `{"leaf_hash": base64}` of entries that retention dropped, `{"leaf": base64}` in index order, then `{"checkpoint": note}`. */
  app.get('/v1/audit/export', { config: { access: ACCESS.exportAll } }, async (request, reply) => {
    // The log holds the calls of every queue.
    if (!seesAll(principalOf(request)))
      return sendProblem(reply, { code: ERROR_CODES.forbidden, message: 'the export holds every queue' });
    return reply.type('application/x-ndjson').send(Readable.from(exportLines(gateway)));
  });
}
