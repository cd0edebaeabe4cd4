import { type GuardianServer, GuardianService, type ReviewReply } from '@countersign/protocol';
import { type RunningService, serveGrpc } from '@countersign/service-kit';
import type { GuardianConfig } from './config.ts';

const MISCONFIGURED: ReviewReply = {
  approve: false,
  reason: 'no provider is configured',
  category: 'misconfigured',
  model: '',
  provider: '',
  promptVersion: '',
  latencyMs: 0n,
};

const implementation: GuardianServer = {
  review: (_call, callback) => callback(null, MISCONFIGURED),
};

/** Serves `Review` and health. Providers are not implemented: no review is ever an approval. */
export async function startGuardian(config: GuardianConfig): Promise<RunningService & { readonly port: number }> {
  const server = await serveGrpc({
    services: [{ definition: GuardianService, implementation }],
    ...config.listen,
  });
  server.setServing(true);
  return { port: server.port, stop: () => server.stop() };
}
