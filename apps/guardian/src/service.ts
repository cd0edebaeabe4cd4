import { type GuardianServer, GuardianService } from '@countersign/protocol';
import { createLogger, type Logger, type RunningService, serveGrpc } from '@countersign/service-kit';
import type { GuardianConfig } from './config.ts';
import { Reviewer } from './review/reviewer.ts';
import { checkModelRoute } from './routes/check-model.ts';
import { resumeRoute } from './routes/resume.ts';
import { reviewRoute } from './routes/review.ts';

/** Says at start-up which models can review, and why others cannot. */
function announceModels(config: GuardianConfig, reviewer: Reviewer, logger: Logger): void {
  const asked = config.pin
    ? [config.pin]
    : config.providers.flatMap(({ name, models }) => models.map((model) => ({ provider: name, model })));
  if (asked.length === 0) logger.warn('no provider is configured; every call that needs a review is denied');
  for (const { provider, model } of asked) {
    const { problem } = reviewer.checkModel({ provider, model });
    if (problem === undefined) logger.info({ provider, model }, 'model can review');
    else logger.warn({ provider, model, problem }, 'model cannot review; its calls that need a review are denied');
  }
}

/** Serves the Guardian and health. A service without a usable provider is healthy and approves nothing. */
export async function startGuardian(
  config: GuardianConfig,
  logger: Logger = createLogger({ name: 'guardian', level: config.logLevel }),
  keys: ReadonlyMap<string, string> = new Map(),
): Promise<RunningService & { readonly port: number }> {
  const reviewer = new Reviewer(config, keys);
  announceModels(config, reviewer, logger);
  const implementation: GuardianServer = {
    review: reviewRoute(reviewer, logger),
    checkModel: checkModelRoute(reviewer),
    resume: resumeRoute(reviewer),
  };
  const server = await serveGrpc({
    services: [{ definition: GuardianService, implementation }],
    ...config.listen,
    tls: config.tls,
  });
  server.setServing(true);
  return { port: server.port, stop: () => server.stop() };
}
