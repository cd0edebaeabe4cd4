import { soak } from '../apps/sandbox-runner/src/launcher/testing/soak.ts';
import { ToolsUnderTest } from '../apps/sandbox-runner/src/launcher/testing/tools-under-test.ts';

/** `node bench/soak.ts [commands]`: short commands through two runners, then 700 MB of output. Ends with 1 when anything is left. */
const commands = Number(process.argv[2] ?? 2_000);
const FLOOD_BYTES = 700_000_000;
const MOST_GROWN_BYTES = 64 * 1024 * 1024;
const megabytes = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MiB`;

const host = new ToolsUnderTest();
try {
  const short = await soak(host, { commands, atOnce: 4 });
  const { processes, files, descriptors } = short.left;
  const rate = (commands / short.seconds).toFixed(1);
  process.stdout.write(
    `${commands} commands in ${short.seconds.toFixed(1)} s (${rate}/s), ${short.failed} failed; left: ${processes.length} processes, ` +
      `${files.length} files, ${descriptors} descriptors; memory grew by ${megabytes(short.grownBytes)}\n`,
  );
  const flood = await soak(host, { commands: 1, atOnce: 1, floodBytes: FLOOD_BYTES });
  process.stdout.write(
    `700 MB of output in ${flood.seconds.toFixed(1)} s; memory grew by ${megabytes(flood.grownBytes)}\n`,
  );
  const isClean = short.failed + processes.length + files.length + descriptors + flood.failed === 0;
  process.exitCode = isClean && flood.grownBytes < MOST_GROWN_BYTES ? 0 : 1;
} finally {
  await host.close();
}
