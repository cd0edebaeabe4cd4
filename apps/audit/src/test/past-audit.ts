import { loadConfig, runService } from '@countersign/service-kit';
import { auditConfigSchema } from '../config.ts';
import { startAudit } from '../service.ts';

const DAY_MS = 86_400_000;
const agoMs = Number(process.argv[2]) * DAY_MS;

await runService({
  name: 'audit',
  start: (logger, stopping) =>
    startAudit(loadConfig(auditConfigSchema), logger, { now: () => Date.now() - agoMs, stopping }),
});
