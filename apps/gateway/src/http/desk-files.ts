import { existsSync } from 'node:fs';
import { ERROR_CODES } from '@countersign/protocol';
import fastifyStatic from '@fastify/static';
import type { FastifyRequest } from 'fastify';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

/** Addresses that are never pages of the desk. */
const INTERFACE = /^\/(?:v1|login|metrics|healthz|readyz|assets)(?:\/|\?|$)/;

const wantsPage = (request: FastifyRequest): boolean =>
  (request.method === 'GET' || request.method === 'HEAD') &&
  !INTERFACE.test(request.url) &&
  (request.headers.accept ?? '').includes('text/html');

/**
 * Serves the built desk: files with a digest in their name may be kept for ever, the page itself is asked for each time. A
 * browser that opens an address inside the desk gets the page. Without a built desk only the interface is served.
 */
export async function addDeskFiles(app: Http, deskDir: string): Promise<void> {
  const built = existsSync(deskDir);
  if (built)
    await app.register(fastifyStatic, {
      root: deskDir,
      preCompressed: true,
      cacheControl: false,
      setHeaders: (reply, file) => {
        const kept = file.includes('/assets/');
        reply.header('cache-control', kept ? 'public, max-age=31536000, immutable' : 'no-cache');
      },
    });
  app.setNotFoundHandler((request, reply) =>
    built && wantsPage(request)
      ? reply.sendFile('index.html')
      : sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such address' }),
  );
}
