import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import type { NatsUser } from './nats-config.ts';

const POLL_MS = 1_000;

const membersSchema = z.object({
  members: z.array(z.looseObject({ role: z.enum(['host', 'agent']), id: z.string(), sign_key: z.string() })),
});

/**
 * Gives every member of the record an account at the broker: asks the gateway each second and calls `apply` with the users
 * when they differ from the ones before. Returns its end.
 */
export function followMembers(operator: GatewayClient, apply: (users: readonly NatsUser[]) => void): () => void {
  let known = '';
  let asking = false;
  const look = async () => {
    const found = await operator.request('GET', '/v1/members', membersSchema);
    if (!found.ok) return;
    const users = found.value.members
      .map(({ role, id, sign_key }) => ({ role, id, publicKey: sign_key }))
      .sort((left, right) => `${left.role}.${left.id}`.localeCompare(`${right.role}.${right.id}`));
    const text = JSON.stringify(users);
    if (text === known) return;
    known = text;
    apply(users);
  };
  const timer = setInterval(() => {
    if (asking) return;
    asking = true;
    // A gateway that is away is asked again; its members keep their accounts meanwhile.
    void look()
      .catch(() => undefined)
      .finally(() => {
        asking = false;
      });
  }, POLL_MS);
  return () => clearInterval(timer);
}
