import { Readable } from 'node:stream';
import type { Gateway } from '../context.ts';
import type { Sign } from './auth.ts';
import { authorise, type Http } from './routes.ts';

const KEEPALIVE_MS = 15_000;

/** `GET /v1/events`: server-sent events with resume by `Last-Event-ID`; `reset` tells the reader to list again. */
function eventRoute(app: Http, gateway: Gateway, sign: Sign): void {
  app.get('/v1/events', (request, reply) => {
    if (!authorise(sign, request, reply, ['viewer', 'approver', 'operator', 'admin', 'auditor'])) return;
    const last = Number(request.headers['last-event-id'] ?? Number.NaN);
    const missed = Number.isSafeInteger(last) ? gateway.hub.since(last) : [];
    const { raw } = reply;
    const write = (event: { id: number; name: string; data: string }) =>
      raw.write(`id: ${event.id}\nevent: ${event.name}\ndata: ${event.data}\n\n`);
    const unfollow = gateway.hub.follow((event) => {
      // A reader that does not keep up is cut off; it comes back and resumes.
      if (raw.writableLength > 1_048_576) raw.destroy();
      else write(event);
    });
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
    raw.on('close', () => {
      clearInterval(keepalive);
      unfollow();
    });
  });
}

async function* exportLines(gateway: Gateway): AsyncGenerator<string> {
  for await (const chunk of gateway.audit.exportLog()) {
    for (const leaf of chunk.leaves) yield `${JSON.stringify({ leaf: Buffer.from(leaf).toString('base64') })}\n`;
    if (chunk.checkpoint !== '') yield `${JSON.stringify({ checkpoint: chunk.checkpoint })}\n`;
  }
}

/** Routes that answer with a stream. */
export function addStreams(app: Http, gateway: Gateway, sign: Sign): void {
  eventRoute(app, gateway, sign);
  /** The whole log as NDJSON: `{"leaf": base64}` in index order, then `{"checkpoint": note}`. */
  app.get('/v1/audit/export', async (request, reply) => {
    if (!authorise(sign, request, reply, ['approver', 'operator', 'admin', 'auditor'])) return reply;
    return reply.type('application/x-ndjson').send(Readable.from(exportLines(gateway)));
  });
}
