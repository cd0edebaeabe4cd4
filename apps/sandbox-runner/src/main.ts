import { loadConfig, runService } from '@countersign/service-kit';
import { runnerConfigSchema } from './config.ts';
import { startRunner } from './service.ts';
import { unavailableTools } from './work/unavailable-tools.ts';

const config = loadConfig(runnerConfigSchema);
await runService({
  name: 'runner',
  logLevel: config.logLevel,
  start: (logger) =>
    startRunner(config, {
      tools: unavailableTools('countersign.product.unimplemented'),
      clock: { now: Date.now },
      logger,
      onFault: (error) => {
        logger.fatal({ err: error }, 'journal cannot be written');
        process.exit(1);
      },
    }),
});
