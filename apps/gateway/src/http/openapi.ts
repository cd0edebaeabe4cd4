import { STATUS_CODES } from 'node:http';
import fastifySwagger from '@fastify/swagger';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import type { AccessRule } from './access-hook.ts';
import type { Http } from './http.ts';

type Operation = OpenAPIV3_1.OperationObject & { 'x-countersign-roles'?: readonly string[] };

const PROBLEM: OpenAPIV3_1.SchemaObject = {
  description: 'Problem Details (RFC 9457). `code` is stable; docs/failure-modes.md names cause and remedy of each.',
  type: 'object',
  required: ['type', 'title', 'status', 'code', 'detail'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string' },
    detail: { type: 'string' },
    winner: { type: 'string', description: 'who decided first, on 409' },
  },
};

const problemFor = (status: number): OpenAPIV3_1.ResponseObject => ({
  description: STATUS_CODES[status] ?? '',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
});

/** What the access rule of a route says to its caller. */
function accessOf(rule: AccessRule | undefined): Partial<Operation> {
  if (!rule || 'open' in rule) return { security: [] };
  return { 'x-countersign-roles': rule.roles };
}

/** Collects every route added after it into an OpenAPI 3.1 document, which `app.swagger()` returns once the app is ready. */
export async function collectOpenApi(app: Http): Promise<void> {
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Countersign gateway',
        version: '1',
        description: 'Tool calls that wait, their decisions, and the record. Lists and events hold masked text only.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      security: [{ token: [] }, { session: [], csrf: [] }],
      components: {
        schemas: { Problem: PROBLEM as never },
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer' },
          session: { type: 'apiKey', in: 'cookie', name: 'countersign_session' },
          csrf: { type: 'apiKey', in: 'header', name: 'x-csrf-token' },
        },
      },
    },
    transform: (route) => {
      const transformed = jsonSchemaTransform(route as never);
      const { config } = route.route as { config?: { access?: AccessRule } };
      return { ...transformed, schema: { ...transformed.schema, ...accessOf(config?.access) } as never };
    },
  });
}

/**
 * The document with what Fastify does not know: an id and a summary for each operation, taken from the docstring of its route,
 * and the problems that every guarded operation may answer with.
 */
export function finishOpenApi(
  document: OpenAPIV3_1.Document,
  summaries: ReadonlyMap<string, string>,
): OpenAPIV3_1.Document {
  const paths: NonNullable<OpenAPIV3_1.Document['paths']> = {};
  for (const [url, item] of Object.entries(document.paths ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const operations = Object.entries(item as Record<string, Operation>).filter(([method]) => method !== 'head');
    paths[url] = Object.fromEntries(
      operations.map(([method, operation]) => {
        const summary = summaries.get(`${method} ${url.replace(/\{(\w+)\}/g, ':$1')}`);
        const guarded = operation.security === undefined;
        const responses = {
          ...operation.responses,
          ...(guarded ? { 401: problemFor(401), 403: problemFor(403), 429: problemFor(429) } : {}),
          default: { ...problemFor(500), description: 'A problem' },
        };
        const operationId = `${method}${url.replace(/[^A-Za-z0-9]+(\w)/g, (_all, letter: string) => letter.toUpperCase())}`;
        const id = operationId.replace(/[^A-Za-z0-9]/g, '');
        return [method, { operationId: id, ...(summary ? { summary } : {}), ...operation, responses }];
      }),
    );
  }
  return { ...document, paths };
}
