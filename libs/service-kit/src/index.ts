export { CONFIG_VARIABLE, commonConfigSchema, knownRoster, loadConfig, loadIdentity, loadRoster } from './config.ts';
export { followIdentity } from './follow-identity.ts';
export {
  type GrpcClientConstructor,
  type GrpcServer,
  type GrpcService,
  grpcClient,
  healthServer,
  serveGrpc,
} from './grpc.ts';
export { isServing } from './health-probe.ts';
export { createLogger, type Logger } from './logger.ts';
export { connectNats, inboxPrefix, type NatsConnection, type NatsOptions } from './nats.ts';
export { replaceFile } from './replace-file.ts';
export { DRAIN_DEADLINE_MS, type RunningService, runService } from './run-service.ts';
export { Slots } from './slots.ts';
export { type ClientTls, clientTlsSchema, type ServerTls, serverTlsSchema } from './tls.ts';
export { childTraceparent, newTraceparent, traceId } from './traceparent.ts';
