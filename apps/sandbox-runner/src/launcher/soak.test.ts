import { afterAll, expect, it } from 'vitest';
import { soak } from './testing/soak.ts';
import { ToolsUnderTest } from './testing/tools-under-test.ts';

const host = new ToolsUnderTest();
afterAll(() => host.close());

it('leaves no process, file or descriptor behind after 100 short commands of two runners', async () => {
  const report = await soak(host, { commands: 100, atOnce: 4 });
  expect(report.failed).toBe(0);
  expect(report.pooled).toBeLessThanOrEqual(200);
  expect(report.left).toEqual({ processes: [], files: [], descriptors: 0 });
}, 120_000);

it('holds its memory and goes on serving while one command prints 200 MB', async () => {
  const report = await soak(host, { commands: 2, atOnce: 2, floodBytes: 200_000_000 });
  expect(report.failed).toBe(0);
  expect(report.grownBytes).toBeLessThan(64 * 1024 * 1024);
}, 120_000);
