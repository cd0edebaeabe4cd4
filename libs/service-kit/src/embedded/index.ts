export { type CertificateFiles, makeCertificates } from './certificates.ts';
export { freePort } from './free-port.ts';
export { type EmbeddedNats, type NatsServerOptions, startNats } from './nats-server.ts';
export { type EmbeddedPostgres, type PostgresOptions, startPostgres } from './postgres.ts';
