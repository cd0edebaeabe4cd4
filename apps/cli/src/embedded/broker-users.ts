import { liveKeys, openRoster, type Roster } from '@countersign/protocol';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import type { NatsUser } from './nats-config.ts';

const POLL_MS = 1_000;

/** Enrolled hosts and agents with their keys, as `GET /v1/members` lists them. */
export const membersSchema = z.object({
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
 * Every key that counts, of the roster and of enrolled members; undefined when the gateway refuses or its roster is not the
 * root's. Rejects when it does not answer.
 */
export async function brokerAccountsNow(gateway: GatewayClient, rootKey: string): Promise<BrokerAccounts | undefined> {
  const found = await gateway.request('GET', '/v1/members', membersSchema);
  const answer = await gateway.request('GET', '/v1/roster', z.looseObject({ signed: z.base64() }));
  if (!found.ok || !answer.ok) return undefined;
  // SECURITY: services are named by the organisation's root, not by the gateway that is asked.
  const roster = openRoster(Buffer.from(answer.value.signed, 'base64'), rootKey);
  if (!roster.ok) return undefined;
  const users = [...controlUsers(roster.value), ...memberUsers(found.value)].sort((left, right) =>
    left.publicKey < right.publicKey ? -1 : 1,
  );
  return { users, names: new Set([...roster.value.members, ...found.value.members].map(nameOf)) };
}

/**
 * Gives every key that counts, of the roster and of enrolled members, an account at the broker: asks the gateway each second
 * and calls `apply` with the users when they differ from the ones before, and `refused` when the gateway begins to refuse.
 * Returns its end.
 */
export function followMembers(
  gateway: GatewayClient,
  rootKey: string,
  apply: (accounts: BrokerAccounts) => void,
  refused: () => void = () => undefined,
): () => void {
  let known = '';
  let isRefused = false;
  let asking = false;
  const look = async () => {
    const accounts = await brokerAccountsNow(gateway, rootKey);
    if (accounts === undefined && !isRefused) refused();
    isRefused = accounts === undefined;
    const text = JSON.stringify(accounts?.users);
    if (accounts === undefined || text === known) return;
    apply(accounts);
    known = text;
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
