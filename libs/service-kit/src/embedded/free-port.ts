import { createServer } from 'node:net';
import { FaultError } from '@countersign/kernel';

/** A TCP port of 127.0.0.1 that nobody listened on a moment ago. */
export async function freePort(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const probe = createServer();
  probe.once('error', reject);
  probe.listen(0, '127.0.0.1', () => {
    const address = probe.address();
    probe.close(() =>
      address !== null && typeof address === 'object'
        ? resolve(address.port)
        : reject(new FaultError('no free port on loopback', { code: 'countersign.start.no_port' })),
    );
  });
  return promise;
}
