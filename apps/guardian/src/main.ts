import { loadConfig, runService } from '@countersign/service-kit';
import { guardianConfigSchema } from './config.ts';
import { startGuardian } from './service.ts';

const config = loadConfig(guardianConfigSchema);
await runService({ name: 'guardian', logLevel: config.logLevel, start: (logger) => startGuardian(config, logger) });
