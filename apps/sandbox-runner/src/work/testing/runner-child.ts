import { passEachStep } from '@countersign/kernel';
import { loadConfig, runService } from '@countersign/service-kit';
import { runnerConfigSchema } from '../../config.ts';
import { startRunner } from '../../service.ts';
import { shellTools } from './shell-tools.ts';

const config = loadConfig(runnerConfigSchema);
await runService({
  name: 'runner',
  logLevel: config.logLevel,
  start: (logger) =>
    startRunner(config, {
      tools: shellTools,
      clock: { now: Date.now },
      logger,
      atStep: passEachStep,
      onFault: () => process.exit(1),
    }),
});
