import { GuardianClient, type ReviewReply, ReviewRequest } from '@countersign/protocol';
import { grpcClient, isServing } from '@countersign/service-kit';
import { expect, test } from 'vitest';
import { guardianConfigSchema } from './config.ts';
import { startGuardian } from './service.ts';

test('a Guardian without a provider is healthy and approves nothing', async () => {
  const guardian = await startGuardian(guardianConfigSchema.parse({ listen: { host: '127.0.0.1', port: 0 } }));
  const address = `127.0.0.1:${guardian.port}`;
  const client = grpcClient(GuardianClient, address);
  const reply = await new Promise<ReviewReply>((resolve, reject) =>
    client.review(ReviewRequest.fromPartial({ callId: 'call_a' }), (error, value) =>
      error ? reject(error) : resolve(value),
    ),
  );
  expect(await isServing(address)).toBe(true);
  expect(reply).toMatchObject({
    approve: false,
    category: 'misconfigured',
    reason: 'no provider is configured; the call was not judged unsafe',
  });
  client.close();
  await guardian.stop();
});
