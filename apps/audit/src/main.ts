import { loadConfig, runService } from '@countersign/service-kit';
import { auditConfigSchema } from './config.ts';
import { startAudit } from './service.ts';

await runService({
  name: 'audit',
  start: (logger, stopping) => startAudit(loadConfig(auditConfigSchema), logger, { stopping }),
});
