import type { IdentityFile } from '@countersign/protocol';
import { waitForHost } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
import type { Installation } from './installation.ts';

const keysOf = ({ id, publicKey, sealPublicKey }: IdentityFile) => ({
  id,
  sign_key: publicKey,
  seal_key: sealPublicKey,
});
const HOST_WAIT_MS = 30_000;

/** Enrols this host and the sample agent with keys of their own, then waits for the host's self-test. */
export async function enrolSamples({ client, data, keys }: Installation): Promise<void> {
  const operator = client('local-operator');
  const { 'host-local': host, 'agent-sample': agent } = keys.identities;
  const nothing = { hosts: [], roots: {}, tools: [], queues: [], task: '' };
  accepted(await operator.join({ role: 'host', ...keysOf(host), principal: 'local', ...nothing }));
  accepted(
    await operator.join({
      role: 'agent',
      ...keysOf(agent),
      principal: 'sample',
      hosts: [host.id],
      roots: { [host.id]: [data.sampleProject] },
      tools: ['read', 'search', 'write', 'edit', 'delete', 'bash', 'background', 'process'],
      queues: ['default'],
      task: 'shows what the product does',
    }),
  );
  accepted(await waitForHost(operator, host.id, HOST_WAIT_MS));
}
