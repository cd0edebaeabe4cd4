import { loadConfig, runService } from '@countersign/service-kit';
import { guardianConfigSchema, keysOfEnvironment } from './config.ts';
import { startGuardian } from './service.ts';

const config = loadConfig(guardianConfigSchema);
const keys = keysOfEnvironment(config);
await runService({
  name: 'guardian',
  logLevel: config.logLevel,
  start: (logger) => startGuardian(config, logger, keys),
});
