import { passEachStep } from '@countersign/kernel';
import { loadConfig, runService } from '@countersign/service-kit';
import { runnerConfigSchema } from './config.ts';
import { sandboxedTools } from './launcher/sandboxed-tools.ts';
import { startRunner } from './service.ts';

const config = loadConfig(runnerConfigSchema);
await runService({
  name: 'runner',
  logLevel: config.logLevel,
  start: (logger) =>
    startRunner(config, {
      tools: sandboxedTools(config),
      clock: { now: Date.now },
      logger,
      atStep: passEachStep,
      onFault: (error) => {
        logger.fatal({ err: error }, 'journal cannot be written');
        process.exit(1);
      },
    }),
});
