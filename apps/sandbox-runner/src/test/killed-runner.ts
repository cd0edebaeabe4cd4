import { loadConfig, runService } from '@countersign/service-kit';
import { killAtStep } from '@countersign/testing/kill-at-step';
import { runnerConfigSchema } from '../config.ts';
import { sandboxedTools } from '../launcher/sandboxed-tools.ts';
import { startRunner } from '../service.ts';

const config = loadConfig(runnerConfigSchema);
await runService({
  name: 'runner',
  logLevel: config.logLevel,
  start: (logger) =>
    startRunner(config, {
      tools: sandboxedTools(config),
      clock: { now: Date.now },
      logger,
      atStep: killAtStep(process.argv[2] ?? ''),
      onFault: () => process.exit(1),
    }),
});
