import { killRun } from '../apps/cli/src/embedded/testing/kill-run.ts';

/**
 * `node bench/kill-run.ts [kills]`: kills gateways, audit, runner, nats-server and PostgreSQL of a real installation at random
 * under load (default 500 kills), then checks what must hold. Prints kills per process and calls per end; ends with 1 when
 * something does not hold.
 */
const kills = Number(process.argv[2] ?? 500);
const startedMs = Date.now();
const report = await killRun({
  kills,
  durationMs: 3_600_000,
  pauseMs: [600, 2_400],
  random: Math.random,
  say: (line) => process.stdout.write(`${line}\n`),
});
process.stdout.write(
  `${JSON.stringify({ ...report, seconds: Math.round((Date.now() - startedMs) / 1_000) }, null, 2)}\n`,
);
process.exitCode = report.wrong.length === 0 ? 0 : 1;
