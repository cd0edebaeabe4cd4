import { Client, credentials } from '@grpc/grpc-js';

/** `HealthCheckResponse.status` = SERVING, as protobuf bytes. */
const SERVING = '0801';
const CHECK = '/grpc.health.v1.Health/Check';

/** Asks the standard health service of `address` once. False when it does not answer SERVING within `timeoutMs`. */
export function isServing(address: string, timeoutMs = 1_000): Promise<boolean> {
  const client = new Client(address, credentials.createInsecure());
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
