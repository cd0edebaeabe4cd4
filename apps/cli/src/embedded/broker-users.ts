import { liveKeys, type Roster, rosterSchema } from '@countersign/protocol';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import type { NatsUser } from './nats-config.ts';

const POLL_MS = 1_000;

const membersSchema = z.object({
  members: z.array(
    z.looseObject({
      role: z.enum(['host', 'agent']),
      id: z.string(),
      sign_key: z.string(),
      previous: z.array(z.object({ sign_key: z.string(), until_ms: z.number() })),
      revoked: z.array(z.string()),
    }),
  ),
});

/** Whom the broker lets in, and every name that the record knows, with or without a key that counts. */
export type BrokerAccounts = { readonly users: readonly NatsUser[]; readonly names: ReadonlySet<string> };

export const nameOf = ({ role, id }: { readonly role: string; readonly id: string }): string => `${role}.${id}`;

/** Accounts of the gateways' and audit's keys that count now. */
function controlUsers(roster: Roster): NatsUser[] {
  return (['gateway', 'audit'] as const).flatMap((role) =>
    liveKeys(roster, role, Date.now()).map(({ id, signKey }) => ({ role, id, publicKey: signKey })),
  );
}

/** Accounts of the keys of hosts and agents that count now, the old and the new one during a rotation. */
const memberUsers = ({ members }: z.infer<typeof membersSchema>): NatsUser[] =>
  members.flatMap(({ role, id, sign_key, previous, revoked }) =>
    [sign_key, ...previous.filter(({ until_ms }) => Date.now() < until_ms).map((old) => old.sign_key)]
      .filter((key) => !revoked.includes(key))
      .map((publicKey) => ({ role, id, publicKey })),
  );

/**
 * Gives every key that counts, of the roster and of enrolled members, an account at the broker: asks the gateway each second and calls `apply` with the users
 * when they differ from the ones before. Returns its end.
 */
export function followMembers(operator: GatewayClient, apply: (accounts: BrokerAccounts) => void): () => void {
  let known = '';
  let asking = false;
  const look = async () => {
    const found = await operator.request('GET', '/v1/members', membersSchema);
    const roster = await operator.request('GET', '/v1/roster', z.looseObject(rosterSchema.shape));
    if (!found.ok || !roster.ok) return;
    const users = [...controlUsers(roster.value), ...memberUsers(found.value)].sort((left, right) =>
      left.publicKey < right.publicKey ? -1 : 1,
    );
    const names = [...roster.value.members, ...found.value.members].map(nameOf);
    const text = JSON.stringify(users);
    if (text === known) return;
    known = text;
    apply({ users, names: new Set(names) });
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
