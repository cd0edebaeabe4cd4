import { loadConfig, runService } from '@countersign/service-kit';
import { gatewayConfigSchema } from './config.ts';
import { startGateway } from './service.ts';

await runService({ name: 'gateway', start: (logger) => startGateway(loadConfig(gatewayConfigSchema), logger) });
