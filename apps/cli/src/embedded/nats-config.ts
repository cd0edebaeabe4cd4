import { consumers, STREAMS, subjects } from '@countersign/protocol';
import { inboxPrefix } from '@countersign/service-kit';

/** Roles that speak to the broker. */
export type NatsRole = 'gateway' | 'audit' | 'host' | 'agent';

export type NatsUser = { readonly role: NatsRole; readonly id: string; readonly publicKey: string };

type Permissions = {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
  /** May answer a request once, at the reply subject that the request named. */
  readonly answers: boolean;
};

/** Every subject of one member's family, at any of its last tokens. */
const below = (subject: string): string => subject.replace(/\.any$/, '.>');

/**
 * What each role may do. Allow-lists only. SECURITY: agents and hosts hold no consumer or stream administration and no
 * direct get, because a consumer's delivery subject is its maker's choice.
 */
const permissions: Readonly<Record<NatsRole, (id: string) => Permissions>> = {
  agent: (id) => ({
    publish: [subjects.call(id), subjects.cancel(id), below(subjects.lease(id, 'any'))],
    subscribe: [below(subjects.event(id, 'any')), subjects.roster()],
    answers: false,
  }),
  host: (id) => ({
    publish: [
      subjects.outcome(id),
      below(subjects.output(id, 'any')),
      subjects.heartbeat(id),
      subjects.proof(id),
      `$JS.API.CONSUMER.MSG.NEXT.${STREAMS.work}.${consumers.work(id)}`,
      `$JS.API.CONSUMER.INFO.${STREAMS.work}.${consumers.work(id)}`,
      `$JS.ACK.${STREAMS.work}.${consumers.work(id)}.>`,
    ],
    subscribe: [subjects.inspect(id), subjects.control(id), subjects.beat(), subjects.roster(), subjects.approvers()],
    answers: true,
  }),
  gateway: () => ({
    publish: [
      '$JS.API.>',
      '$JS.ACK.>',
      '$KV.>',
      'cs.v1.work.*',
      'cs.v1.event.*.*',
      'cs.v1.inspect.*',
      'cs.v1.control.*',
      subjects.notice('*'),
      subjects.deadNotice('*'),
      subjects.gatewayPing(),
      subjects.gatewayNote(),
      subjects.deskFeed(),
    ],
    subscribe: [
      'cs.v1.heartbeat.*',
      'cs.v1.lease.*.*',
      'cs.v1.output.*.*',
      'cs.v1.event.*.*',
      subjects.gatewayPing(),
      subjects.gatewayNote(),
      subjects.beat(),
      subjects.roster(),
    ],
    answers: true,
  }),
  audit: () => ({
    publish: [subjects.beat(), subjects.roster(), subjects.approvers()],
    subscribe: ['cs.v1.proof.*'],
    answers: true,
  }),
};

function userEntry({ role, id, publicKey }: NatsUser): object {
  const { publish, subscribe, answers } = permissions[role](id);
  return {
    nkey: publicKey,
    permissions: {
      publish: { allow: publish },
      subscribe: { allow: [...subscribe, `${inboxPrefix(role, id)}.>`] },
      ...(answers ? { allow_responses: { max: 1, expires: '60s' } } : {}),
    },
  };
}

/** The accounts of `users` in nats-server's own format, for `authorization`. Holds no secret. */
export const brokerAccounts = (users: readonly NatsUser[]): readonly object[] => users.map(userEntry);

/** Largest message that the broker takes; senders refuse longer ones themselves. */
export const MAX_PAYLOAD_BYTES = 1_048_576;

/** Configuration text of nats-server: loopback, JetStream, one NKey per member, no anonymous user. Holds no secret. */
export function natsServerConfig(
  users: readonly NatsUser[],
  server: { readonly port: number; readonly storeDir: string },
): string {
  const config = {
    listen: `127.0.0.1:${server.port}`,
    server_name: 'countersign',
    max_payload: MAX_PAYLOAD_BYTES,
    jetstream: { store_dir: server.storeDir },
    authorization: { users: brokerAccounts(users) },
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}
