import { existsSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import fastifyCookie from '@fastify/cookie';
import fastifyHelmet from '@fastify/helmet';
import fastifyRateLimit from '@fastify/rate-limit';
import fastifyStatic from '@fastify/static';
import Fastify from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import type { GatewayConfig } from '../config.ts';
import type { Gateway } from '../context.ts';
import { Sign } from './auth.ts';
import { sendProblem } from './problem.ts';
import { addRoutes, type Http } from './routes.ts';
import { addStreams } from './streams.ts';

const BODY_LIMIT = 65_536;
const REQUESTS_PER_MINUTE = 1_200;

const CSP = {
  directives: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", 'data:'],
    connectSrc: ["'self'"],
    fontSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'self'"],
    frameAncestors: ["'none'"],
    upgradeInsecureRequests: null,
  },
};

function addErrors(app: Http, gateway: Gateway): void {
  app.setErrorHandler((error: Error & { statusCode?: number; validation?: unknown }, request, reply) => {
    if (error.validation)
      return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: error.message.toLowerCase() });
    if (error.statusCode === 429)
      return sendProblem(reply, {
        code: ERROR_CODES.rateLimited,
        message: 'too many requests; wait for the time in Retry-After',
      });
    if (error instanceof FaultError && error.code === ERROR_CODES.auditUnavailable) {
      return sendProblem(reply, { code: ERROR_CODES.auditUnavailable, message: error.publicMessage });
    }
    if (error.statusCode !== undefined && error.statusCode < 500)
      return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: error.message.toLowerCase() });
    gateway.logger.error({ err: error, route: request.routeOptions.url }, 'a request failed');
    return sendProblem(reply, { code: ERROR_CODES.internal, message: 'a fault in the gateway; see its log' });
  });
  app.setNotFoundHandler((_request, reply) =>
    sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such address' }),
  );
}

/** Listens with the API and the desk. Rejects when the address is taken. */
export async function startHttp(
  config: GatewayConfig,
  gateway: Gateway,
): Promise<{ port: number; stop: () => Promise<void> }> {
  const app: Http = Fastify({
    bodyLimit: BODY_LIMIT,
    requestTimeout: 30_000,
    forceCloseConnections: true,
  }).withTypeProvider<ZodTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  await app.register(fastifyCookie);
  await app.register(fastifyHelmet, { contentSecurityPolicy: CSP, hsts: false });
  await app.register(fastifyRateLimit, { max: REQUESTS_PER_MINUTE, timeWindow: 60_000 });
  addErrors(app, gateway);
  const sign = new Sign(config.tokens, gateway.now);
  addRoutes(app, gateway, sign);
  addStreams(app, gateway, sign);
  if (existsSync(config.deskDir)) await app.register(fastifyStatic, { root: config.deskDir });
  await app.listen({ host: config.http.host, port: config.http.port });
  const address = app.server.address();
  return { port: typeof address === 'object' && address ? address.port : config.http.port, stop: () => app.close() };
}
