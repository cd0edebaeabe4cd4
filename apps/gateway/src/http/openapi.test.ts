import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ControlPlane } from '../testing/control-plane.ts';
import { finishOpenApi } from './openapi.ts';

const ROUTE = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*app\s*\.(get|post|put|patch|delete)\(\s*'([^']+)'/g;

/** First sentence of the docstring of each route, by `method path`. */
function docstrings(): Map<string, string> {
  const files = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
  const found = files.flatMap((name) => [
    ...readFileSync(path.join(import.meta.dirname, name), 'utf8').matchAll(ROUTE),
  ]);
  return new Map(
    found.map(([, comment = '', method, url]) => {
      const text = comment.replace(/\s*\n\s*\*\s*/g, ' ').trim();
      return [`${method} ${url}`, text];
    }),
  );
}

const plane = new ControlPlane();
const oidc = { issuer: 'http://127.0.0.1:9/', clientId: 'desk', publicUrl: 'http://127.0.0.1:9', roles: {} };
beforeAll(() => plane.start([], { oidc: oidc as never }), 60_000);
afterAll(() => plane.stop());

test('docs/openapi.json describes every route of the gateway; `vitest -u` writes it anew', async () => {
  const document = finishOpenApi(plane.gateway.openapi, docstrings());
  const operations = Object.entries(document.paths ?? {}).flatMap(([url, item]) =>
    Object.entries(item as Record<string, { summary?: string }>).map(
      ([method, { summary = '' }]) => [`${method.toUpperCase()} ${url.replace(/\{(\w+)\}/g, ':$1')}`, summary] as const,
    ),
  );
  expect(operations.filter(([, summary]) => summary === '')).toEqual([]);
  const described = operations.map(([name]) => name).sort();
  expect(described).toEqual(plane.gateway.routes.filter((route) => !route.startsWith('HEAD ')).toSorted());
  const file = path.join(import.meta.dirname, '../../../../docs/openapi.json');
  await expect(`${JSON.stringify(document, undefined, 2)}\n`).toMatchFileSnapshot(file);
});
