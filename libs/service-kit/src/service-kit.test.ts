import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { childTraceparent, isServing, loadConfig, newTraceparent, serveGrpc, traceId } from './index.ts';

const written = (text: string): Record<string, string> => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'countersign-config-')), 'config.json');
  writeFileSync(file, text);
  return { COUNTERSIGN_CONFIG: file };
};

describe('configuration', () => {
  const schema = z.strictObject({ password: z.string().min(20) });

  test('a refused configuration names the field and never shows its value', () => {
    const load = () => loadConfig(schema, written('{"password":"hunter2"}'));
    expect(load).toThrow(/`password`/);
    expect(load).not.toThrow(/hunter2/);
  });

  test('text that is not JSON is refused without being shown', () => {
    expect(() => loadConfig(schema, written('hunter2'))).toThrow(/as JSON$/);
  });

  test('a missing variable is refused', () => {
    expect(() => loadConfig(schema, {})).toThrow(/set `COUNTERSIGN_CONFIG`/);
  });
});

describe('health', () => {
  test('a server is serving only after it says so, and not after its stop', async () => {
    const server = await serveGrpc({ services: [], host: '127.0.0.1', port: 0 });
    const address = `127.0.0.1:${server.port}`;
    expect(await isServing(address)).toBe(false);
    server.setServing(true);
    expect(await isServing(address)).toBe(true);
    await server.stop(100);
    expect(await isServing(address, 200)).toBe(false);
  });
});

describe('trace context', () => {
  test('a child keeps the trace and takes a span of its own', () => {
    const parent = newTraceparent();
    const child = childTraceparent(parent);
    expect(traceId(child)).toBe(traceId(parent));
    expect(child).not.toBe(parent);
  });

  test.each(['', 'x', `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`])('`%s` is not a trace', (text) => {
    expect(traceId(text)).toBeUndefined();
  });
});
