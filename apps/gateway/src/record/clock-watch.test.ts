import { describe, expect, test } from 'vitest';
import { ClockWatch, MAX_OFFSET_MS } from './clock-watch.ts';

/** A gateway's clock, one that nobody sets, and the database's, moved by hand. */
function clocks() {
  const at = { gatewayMs: 1_000_000, elapsedMs: 0, databaseMs: 1_000_000, readingMs: 0 };
  const watch = new ClockWatch({ now: () => at.gatewayMs, elapsedMs: () => at.elapsedMs });
  const pass = (ms: number) => {
    at.gatewayMs += ms;
    at.elapsedMs += ms;
    at.databaseMs += ms;
  };
  const read = () =>
    watch.read(async () => {
      pass(at.readingMs / 2);
      const answer = at.databaseMs;
      pass(at.readingMs / 2);
      return answer;
    });
  return { at, watch, pass, read };
}

describe("a gateway's clock", () => {
  test('counts as off before the first reading', () => {
    expect(clocks().watch.isRight()).toBe(false);
  });

  test.each([
    [0, true],
    [MAX_OFFSET_MS, true],
    [-MAX_OFFSET_MS, true],
    [MAX_OFFSET_MS + 1, false],
    [-MAX_OFFSET_MS - 1, false],
    [86_400_000, false],
  ])('%i ms beside the database is right: %s', async (offsetMs, isRight) => {
    const { at, watch, read } = clocks();
    at.gatewayMs += offsetMs;
    await read();
    expect(watch.isRight()).toBe(isRight);
  });

  test('that is set while it runs is off at once, and right again as soon as it is set back', async () => {
    const { at, watch, pass, read } = clocks();
    await read();
    pass(60_000);
    expect(watch.isRight()).toBe(true);
    at.gatewayMs -= 3_600_000;
    expect(watch.isRight()).toBe(false);
    expect(watch.problem()).toMatchObject({ code: 'countersign.gateway.clock_off' });
    expect(watch.problem().message).toMatch(/^the gateway's clock is 3600 s behind the database's/);
    at.gatewayMs += 3_600_000;
    expect(watch.isRight()).toBe(true);
  });

  test('is not blamed for what the way of a reading hides, nor trusted by a reading that took too long', async () => {
    const { at, watch, read } = clocks();
    at.readingMs = 4_000;
    at.gatewayMs += MAX_OFFSET_MS + 1_000;
    await read();
    expect(watch.isRight()).toBe(true);
    const slow = clocks();
    slow.at.readingMs = 60_000;
    await slow.read();
    expect(slow.watch.isRight()).toBe(false);
  });

  test('a reading that fails changes nothing', async () => {
    const { watch, read } = clocks();
    await read();
    await expect(watch.read(() => Promise.reject(new Error('away')))).rejects.toThrow('away');
    expect(watch.isRight()).toBe(true);
  });
});
