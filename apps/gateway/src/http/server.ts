import { FaultError } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import fastifyCookie from '@fastify/cookie';
import fastifyHelmet from '@fastify/helmet';
import Fastify from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import { Invitations } from '../access/invitations.ts';
import { openOidc } from '../access/open-access.ts';
import type { GatewayConfig } from '../config.ts';
import type { Gateway } from '../context.ts';
import type { Outside } from '../notify/start-notifying.ts';
import { guardRoutes } from './access-hook.ts';
import { addAccessRoutes } from './access-routes.ts';
import { addChangeRoutes } from './change-routes.ts';
import { addCustodyRoutes } from './custody-routes.ts';
import { addDeskContext } from './desk-context.ts';
import { addDeskFiles } from './desk-files.ts';
import { addEnrolRoutes } from './enrol-routes.ts';
import { addEvidenceRoutes } from './evidence-routes.ts';
import { addGovernanceRoutes } from './governance-routes.ts';
import type { Http } from './http.ts';
import { addKeyRoutes } from './key-routes.ts';
import { addNotificationRoutes } from './notification-routes.ts';
import { addOidcRoutes, addSignInWays } from './oidc-routes.ts';
import { collectOpenApi } from './openapi.ts';
import { addPasskeyRoutes } from './passkey-routes.ts';
import { addPollRoute } from './poll-route.ts';
import { sendProblem } from './problem.ts';
import { addProcessRoutes } from './process-routes.ts';
import { countRequests } from './request-limits.ts';
import { addReviewRoutes } from './review-routes.ts';
import { addRoutes } from './routes.ts';
import { addStreams } from './streams.ts';

const BODY_LIMIT = 65_536;

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

const PASSED_ON: readonly string[] = [ERROR_CODES.auditUnavailable, ERROR_CODES.clockOff, ERROR_CODES.changedMeanwhile];
const isPassedOn = (code: string): code is ErrorCode => PASSED_ON.includes(code);

function addErrors(app: Http, gateway: Gateway): void {
  app.setErrorHandler((error: Error & { statusCode?: number; validation?: unknown }, request, reply) => {
    if (error.validation)
      return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: error.message.toLowerCase() });
    if (error instanceof FaultError && isPassedOn(error.code))
      return sendProblem(reply, { code: error.code, message: error.publicMessage });
    if (error.statusCode !== undefined && error.statusCode < 500)
      return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: error.message.toLowerCase() });
    gateway.logger.error({ err: error, route: request.routeOptions.url }, 'a request failed');
    return sendProblem(reply, { code: ERROR_CODES.internal, message: 'a fault in the gateway; see its log' });
  });
}

/** The listening interface, with the list and the description of its routes. */
export type HttpServer = {
  readonly port: number;
  readonly routes: readonly string[];
  readonly openapi: OpenAPIV3_1.Document;
  readonly stop: () => Promise<void>;
};

/** Listens with the API and the desk. Rejects when the address is taken. */
export async function startHttp(config: GatewayConfig, gateway: Gateway, outside: Outside): Promise<HttpServer> {
  const app: Http = Fastify({
    bodyLimit: BODY_LIMIT,
    requestTimeout: 30_000,
    forceCloseConnections: true,
    trustProxy: config.http.trustedProxies.length === 0 ? false : [...config.http.trustedProxies],
  }).withTypeProvider<ZodTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  await app.register(fastifyCookie);
  await app.register(fastifyHelmet, { contentSecurityPolicy: CSP, hsts: false });
  addErrors(app, gateway);
  await collectOpenApi(app);
  const { access } = gateway;
  const routes = guardRoutes(app, {
    authenticator: access.authenticator,
    clock: gateway.clock,
    isTooMany: await countRequests(app),
    now: gateway.now,
  });
  addRoutes(app, gateway);
  addChangeRoutes(app, gateway);
  addProcessRoutes(app, gateway);
  addAccessRoutes(app, gateway);
  addGovernanceRoutes(app, gateway);
  addPasskeyRoutes(app, gateway);
  const oidc = openOidc(config, access.directory, gateway.now);
  if (oidc) addOidcRoutes(app, oidc, access.signIn);
  addSignInWays(app, { oidc: oidc !== undefined, hardened: access.hardened });
  addKeyRoutes(app, gateway);
  addEnrolRoutes(app, gateway, {
    invitations: new Invitations({ audit: gateway.audit, rootKey: config.rootKey, now: gateway.now }),
    authenticator: access.authenticator,
    rootKey: config.rootKey,
    natsUrl: config.publicNatsUrl ?? config.natsUrl,
  });
  addDeskContext(app, gateway);
  addReviewRoutes(app, gateway);
  addStreams(app, gateway);
  addPollRoute(app, gateway);
  addEvidenceRoutes(app, gateway);
  addCustodyRoutes(app, gateway);
  addNotificationRoutes(app, { ...outside, now: gateway.now, audit: gateway.audit });
  await addDeskFiles(app, config.deskDir);
  await app.listen({ host: config.http.host, port: config.http.port });
  const address = app.server.address();
  const port = typeof address === 'object' && address ? address.port : config.http.port;
  return { port, routes, openapi: app.swagger() as OpenAPIV3_1.Document, stop: () => app.close() };
}
