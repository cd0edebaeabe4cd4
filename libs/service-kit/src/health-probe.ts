import { Client } from '@grpc/grpc-js';
import { grpcConnection } from './grpc.ts';
import type { ClientTls } from './tls.ts';

/** `HealthCheckResponse.status` = SERVING, as protobuf bytes. */
const SERVING = '0801';
const CHECK = '/grpc.health.v1.Health/Check';

/** Asks the standard health service of `address` once. False when it does not answer SERVING within `timeoutMs`. */
export function isServing(address: string, timeoutMs = 1_000, tls?: ClientTls): Promise<boolean> {
  const connection = grpcConnection(address, tls);
  const client = new Client(address, connection.credentials, connection.options);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  client.makeUnaryRequest(
    CHECK,
    () => Buffer.alloc(0),
    (bytes: Buffer) => bytes.toString('hex'),
    {},
    { deadline: Date.now() + timeoutMs },
    (error, answer) => resolve(!error && answer === SERVING),
  );
  return promise.finally(() => client.close());
}
