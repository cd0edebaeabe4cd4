import { loadConfig, runService } from '@countersign/service-kit';
import { gatewayConfigSchema, isHardened } from './config.ts';
import { startGateway } from './service.ts';

await runService({
  name: 'gateway',
  start: (logger) => {
    const config = loadConfig(gatewayConfigSchema);
    const hardened = config.hardened || isHardened(process.env.COUNTERSIGN_HARDENED_MODE);
    return startGateway({ ...config, hardened }, logger);
  },
});
