import { loadConfig, runService } from '@countersign/service-kit';
import { killAtStep } from '@countersign/testing/kill-at-step';
import { auditConfigSchema } from '../config.ts';
import { startAudit } from '../service.ts';

const atStep = killAtStep(process.argv[2] ?? '');
await runService({
  name: 'audit',
  start: (logger, stopping) => startAudit(loadConfig(auditConfigSchema), logger, { atStep, stopping }),
});
