import { isSubjectToken } from '@countersign/kernel';

const token = (text: string): string => {
  if (!isSubjectToken(text))
    throw new TypeError(`\`${text.slice(0, 80)}\` cannot be part of a subject; use 1 to 64 of A-Z a-z 0-9 _ -`);
  return text;
};

/** Every NATS subject of the product. Throws a TypeError for a token outside `[A-Za-z0-9_-]{1,64}`. */
export const subjects = {
  call: (agent: string) => `cs.v1.call.${token(agent)}`,
  cancel: (agent: string) => `cs.v1.cancel.${token(agent)}`,
  lease: (agent: string, session: string) => `cs.v1.lease.${token(agent)}.${token(session)}`,
  event: (agent: string, session: string) => `cs.v1.event.${token(agent)}.${token(session)}`,
  work: (host: string) => `cs.v1.work.${token(host)}`,
  outcome: (host: string) => `cs.v1.outcome.${token(host)}`,
  inspect: (host: string) => `cs.v1.inspect.${token(host)}`,
  control: (host: string) => `cs.v1.control.${token(host)}`,
  output: (host: string, call: string) => `cs.v1.output.${token(host)}.${token(call)}`,
  heartbeat: (host: string) => `cs.v1.heartbeat.${token(host)}`,
  beat: () => 'cs.v1.checkpoint',
  /** The roster in force, as the root signed it. */
  roster: () => 'cs.v1.roster',
  /** The approver list in force, as the root signed it. */
  approvers: () => 'cs.v1.approvers',
  /** Notices that wait for a channel; `*` for all channels. */
  notice: (channel: string) => `cs.v1.notice.${channel === '*' ? channel : token(channel)}`,
  /** Notices that were given up. */
  deadNotice: (channel: string) => `cs.v1.dead-notice.${channel === '*' ? channel : token(channel)}`,
  gatewayPing: () => 'cs.v1.gateway.ping',
  gatewayNote: () => 'cs.v1.gateway.note',
  deskFeed: () => 'cs.v1.gateway.desk',
  proof: (host: string) => `cs.v1.proof.${token(host)}`,
} as const;

/** Names of the JetStream streams. */
export const STREAMS = {
  calls: 'CALLS',
  work: 'WORK',
  outcomes: 'OUTCOMES',
  events: 'EVENTS',
  notices: 'NOTICES',
  deadNotices: 'DEAD_NOTICES',
} as const;

/** Durable consumers, made by the control plane only. */
export const consumers = {
  gatewayCalls: 'gateway-calls',
  gatewayOutcomes: 'gateway-outcomes',
  work: (host: string) => `work-${token(host)}`,
  notices: (channel: string) => `notices-${token(channel)}`,
} as const;
