import { randomBytes } from 'node:crypto';
import { type CallState, isTerminal } from '@countersign/kernel';
import { CallPayload, type CallRecord, ERROR_CODES, visibleBytes } from '@countersign/protocol';
import { z } from 'zod';
import { recordAct } from '../access/admin-log.ts';
import { visible } from '../access/principal.ts';
import { sendControl } from '../broker/control.ts';
import { inspect } from '../broker/inspect.ts';
import type { LivePiece } from '../broker/live-output.ts';
import { callSummary } from '../calls/announce.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { watchReader } from './reader-watch.ts';
import { visibleCall } from './visible-call.ts';

const callId = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
const NO_CALL = { code: ERROR_CODES.notFound, message: 'no such call' };
const KEEPALIVE_MS = 15_000;
const MAX_BEHIND_BYTES = 1_048_576;
const MAX_LINES = 2_000;

const masked = (bytes: Uint8Array): string => visibleBytes(bytes).split('\n').map(maskText).join('\n');

/** Last lines of a running command, asked of its host; masked. */
async function tailOf(gateway: Gateway, record: CallRecord, maxLines: number) {
  const host = await gateway.members.find('host', record.orderHost);
  if (!host) return undefined;
  const args = JSON.stringify({ action: 'tail', id: record.callId, max_lines: maxLines });
  const payload = CallPayload.encode({ salt: randomBytes(32), arguments: new TextEncoder().encode(args) }).finish();
  const { connection } = gateway.broker;
  const found = await inspect(
    { connection, identity: gateway.identity, control: gateway.control, host },
    { callId: record.callId, tool: 'process', project: '', payload, pathsOnly: false, denyRead: [], denyWrite: [] },
  );
  return found.ok ? masked(new TextEncoder().encode(found.value.diff)) : undefined;
}

const dataOf = ({ number, stdout, stderr, droppedBytes }: LivePiece): string =>
  JSON.stringify({ number, stdout: masked(stdout), stderr: masked(stderr), droppedBytes });

function outputRoute(app: Http, gateway: Gateway): void {
  /**
   * Output of a call while it runs, as server-sent events: `tail` with what came before, `output` for each piece, `end` when
   * the call has ended. Masked by line; bytes that are no text are shown as `\xHH`. The
   * stream also ends within six seconds once its reader may not read the call any more.
   */
  app.get(
    '/v1/calls/:id/output',
    { config: { access: ACCESS.read }, schema: { params: callId } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const { raw } = reply;
      const write = (event: string, data: string) => {
        // A reader that does not keep up is cut off; the end of the call has the whole output.
        if (raw.writableLength > MAX_BEHIND_BYTES) raw.destroy();
        else raw.write(`event: ${event}\ndata: ${data}\n\n`);
      };
      // What is written between the end and the close of a slow reader's stream is dropped.
      raw.on('error', () => undefined);
      const end = () => {
        write('end', '{}');
        raw.end();
      };
      const unwatch = gateway.output.watch(record.callId, {
        onPiece: (piece) => write('output', dataOf(piece)),
        onEnd: end,
      });
      if (!unwatch) return reply.code(503).send();
      reply.hijack();
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) raw.setHeader(name, value);
      raw.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
      const keepalive = setInterval(() => raw.write(': keepalive\n\n'), KEEPALIVE_MS);
      const leave = watchReader(gateway, request, {
        onReader: (principal) => {
          if (!visible(principal, record, gateway.queues)) raw.destroy();
        },
        onGone: () => raw.destroy(),
      });
      raw.on('close', () => {
        clearInterval(keepalive);
        leave();
        unwatch();
      });
      const text = await tailOf(gateway, record, MAX_LINES).catch(() => undefined);
      write('tail', JSON.stringify({ text: text ?? '' }));
      const now = await gateway.audit.getCall('', record.callId);
      if (!now || isTerminal(now.state as CallState)) end();
      return reply;
    },
  );
}

/** Commands that run: list, last output, live output, sending to the background. Stopping one is cancelling its call. */
export function addProcessRoutes(app: Http, gateway: Gateway): void {
  outputRoute(app, gateway);

  /** Calls that were sent to the background and have not ended. */
  app.get('/v1/processes', { config: { access: ACCESS.read } }, async (request) => {
    const page = await gateway.audit.listCalls(['backgrounded'], 500);
    const principal = principalOf(request);
    return { calls: page.calls.filter((call) => visible(principal, call, gateway.queues)).map(callSummary) };
  });

  /** Last lines that a running command printed. */
  app.get(
    '/v1/calls/:id/tail',
    {
      config: { access: ACCESS.read },
      schema: {
        params: callId,
        querystring: z.object({ lines: z.coerce.number().int().min(1).max(MAX_LINES).default(100) }),
      },
    },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const text = await tailOf(gateway, record, request.query.lines);
      if (text !== undefined) return { text };
      return sendProblem(reply, { code: ERROR_CODES.alreadyDecided, message: 'the call does not run on its host' });
    },
  );

  /** Lets the command of a running call go on in the background; the record says who wanted that. */
  app.post(
    '/v1/calls/:id/background',
    { config: { access: ACCESS.decide }, schema: { params: callId, body: z.strictObject({}) } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      if (!['dispatched', 'running'].includes(record.state)) {
        return sendProblem(reply, { code: ERROR_CODES.alreadyDecided, message: `call is \`${record.state}\`` });
      }
      const { orderId, orderHost } = record;
      const by = principalOf(request).name;
      const detail = { call: record.callId, host: orderHost };
      await recordAct(gateway.audit, { what: 'process.backgrounded', by, detail }, gateway.now());
      sendControl(gateway, orderHost, { action: 'background', callId: record.callId, orderId, reason: '' });
      return { outcome: 'requested' };
    },
  );
}
