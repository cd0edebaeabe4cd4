import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { GuardianClient, type ReviewReply, ReviewRequest } from '@countersign/protocol';
import { grpcClient } from '@countersign/service-kit';
import { pino } from 'pino';
import { guardianConfigSchema } from '../src/config.ts';
import { startGuardian } from '../src/service.ts';
import { type Script, type ScriptedEndpoint, startEndpoint } from './scripted-endpoint.ts';

export const KEY = 'key-0123456789-abcdefghij';
export const KINDS = ['openai', 'anthropic', 'ollama'] as const;
export type Kind = (typeof KINDS)[number];

export type GuardianUnderTest = {
  readonly endpoint: ScriptedEndpoint;
  readonly address: string;
  readonly client: GuardianClient;
  /** Everything that was logged. */
  readonly log: () => string;
  readonly review: (request?: Partial<ReviewRequest>) => Promise<ReviewReply>;
  readonly stop: () => Promise<void>;
};

/** An ordinary call of an ordinary agent. */
export const ORDINARY: Partial<ReviewRequest> = {
  callId: 'call_a',
  sessionId: 'ses_a',
  provider: 'prov',
  model: 'model-1',
  requestText: 'run the unit tests',
  agentRole: 'agent builder of ann',
  agentTask: 'keeps the tests of the shop green',
  project: '/srv/shop',
  tool: 'bash',
  action: 'execute',
  detail: JSON.stringify({ command: 'npm test' }),
  scope: '/srv/shop',
  sessionChain: ['ses_a'],
};

const baseUrlOf = (kind: Kind, url: string): string => (kind === 'openai' ? `${url}/v1` : url);

/** A Guardian behind gRPC whose one provider `prov` is a scripted endpoint. */
export async function guardianUnderTest(options: {
  script: Script;
  kind?: Kind;
  provider?: object;
  config?: object;
  keyMode?: number;
  keys?: ReadonlyMap<string, string>;
}): Promise<GuardianUnderTest> {
  const kind = options.kind ?? 'openai';
  const folder = mkdtempSync(path.join(tmpdir(), 'guardian-'));
  const apiKeyFile = path.join(folder, 'key');
  writeFileSync(apiKeyFile, `${KEY}\n`, { mode: 0o600 });
  chmodSync(apiKeyFile, options.keyMode ?? 0o600);
  const endpoint = await startEndpoint(options.script);
  const lines: string[] = [];
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(String(chunk));
      done();
    },
  });
  const config = guardianConfigSchema.parse({
    listen: { host: '127.0.0.1', port: 0 },
    providers: [
      {
        name: 'prov',
        kind,
        baseUrl: baseUrlOf(kind, endpoint.url),
        apiKeyFile,
        models: ['model-1'],
        completion: 'once',
        ...options.provider,
      },
    ],
    deadlineMs: 20_000,
    ...options.config,
  });
  const guardian = await startGuardian(config, pino({ level: 'trace' }, sink), options.keys);
  const address = `127.0.0.1:${guardian.port}`;
  const client = grpcClient(GuardianClient, address);
  return {
    endpoint,
    address,
    client,
    log: () => lines.join(''),
    review: (request = {}) =>
      new Promise((resolve, reject) =>
        client.review(ReviewRequest.fromPartial({ ...ORDINARY, ...request }), (error, reply) =>
          error ? reject(error) : resolve(reply),
        ),
      ),
    stop: async () => {
      client.close();
      await guardian.stop();
      await endpoint.stop();
      rmSync(folder, { recursive: true });
    },
  };
}
