import { loadConfig, runService } from '@countersign/service-kit';
import { killAtStep } from '@countersign/testing/kill-at-step';
import { gatewayConfigSchema } from '../config.ts';
import { startGateway } from '../service.ts';

const atStep = killAtStep(process.argv[2] ?? '');
await runService({
  name: 'gateway',
  start: (logger) => startGateway(loadConfig(gatewayConfigSchema), logger, { atStep }),
});
