import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as the endpoint understood it. */
export type Asked = {
  readonly protocol: 'openai' | 'anthropic';
  readonly path: string;
  readonly model: string;
  readonly system: string;
  readonly user: string;
  readonly body: Record<string, unknown>;
  readonly headers: IncomingMessage['headers'];
};

/** What the endpoint does with one request; `turn` counts from 1. */
export type Script = (asked: Asked, response: ServerResponse, turn: number) => void | Promise<void>;

export type ScriptedEndpoint = {
  readonly url: string;
  readonly asked: Asked[];
  /** Most requests that were open at the same time. */
  readonly mostAtOnce: () => number;
  readonly stop: () => Promise<void>;
};

/** The answer of a model in the protocol of the request. */
export function completionBody(asked: Asked, text: string, change: Record<string, unknown> = {}): string {
  if (asked.protocol === 'anthropic') {
    return JSON.stringify({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: asked.model,
      content: [{ type: 'text', text }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 11, output_tokens: 7 },
      ...change,
    });
  }
  return JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: asked.model,
    choices: [{ index: 0, message: { role: 'assistant', content: text, refusal: null }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
    ...change,
  });
}

export const send = (response: ServerResponse, body: string | Uint8Array, status = 200, headers = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
};

export const verdict = (decision: string, reason: string): string => JSON.stringify({ decision, reason });

/** A script that answers every request with one text. */
export const say =
  (text: string): Script =>
  (asked, response) =>
    send(response, completionBody(asked, text));

const textOf = (content: unknown): string => (typeof content === 'string' ? content : JSON.stringify(content ?? ''));

function understand(request: IncomingMessage, raw: string): Asked {
  const body = JSON.parse(raw) as Record<string, unknown>;
  const messages = body.messages as { role: string; content: unknown }[];
  const protocol = request.url === '/v1/messages' ? 'anthropic' : 'openai';
  const of = (role: string) => textOf(messages.find((message) => message.role === role)?.content);
  return {
    protocol,
    path: request.url ?? '',
    model: String(body.model),
    system: protocol === 'anthropic' ? textOf(body.system) : of('system'),
    user: of('user'),
    body,
    headers: request.headers,
  };
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** Listens on loopback and speaks chat completions and messages, one request after the script's taste. */
export async function startEndpoint(script: Script): Promise<ScriptedEndpoint> {
  const asked: Asked[] = [];
  let open = 0;
  let most = 0;
  const server = createServer(async (request, response) => {
    open += 1;
    most = Math.max(most, open);
    response.on('close', () => {
      open -= 1;
    });
    const raw = await readAll(request);
    if (request.method !== 'POST' || !['/v1/messages', '/v1/chat/completions'].includes(request.url ?? '')) {
      return send(response, '{"error":{"message":"no such path"}}', 404);
    }
    const one = understand(request, raw);
    asked.push(one);
    await script(one, response, asked.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    mostAtOnce: () => most,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
