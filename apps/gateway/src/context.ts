import type { AtStep } from '@countersign/kernel';
import type { GuardianClient, Identity } from '@countersign/protocol';
import type { Logger, NatsConnection } from '@countersign/service-kit';
import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream';
import type { Access } from './access/access.ts';
import type { Queues } from './access/principal.ts';
import type { Rosters } from './access/rosters.ts';
import type { GatewayBus } from './broker/gateway-bus.ts';
import type { Hosts } from './broker/hosts.ts';
import type { LiveOutput } from './broker/live-output.ts';
import type { OpinionDesk } from './calls/guardian-opinions.ts';
import type { WaitingCalls } from './calls/waiting-calls.ts';
import type { EventHub } from './event-hub.ts';
import type { FreezeWatch } from './freeze/freeze-watch.ts';
import type { GatewayStep } from './gateway-step.ts';
import type { Governance } from './governance/governance.ts';
import type { GrantLedger } from './grants/grant-ledger.ts';
import type { HostFiles } from './layers/host-files.ts';
import type { RecordedLayers } from './layers/recorded-layers.ts';
import type { Metrics } from './metrics.ts';
import type { Reach } from './notify/reach.ts';
import type { PolicyDesk } from './policy/policy-desk.ts';
import type { AuditLog } from './record/audit-log.ts';
import type { ClockWatch } from './record/clock-watch.ts';
import type { Members } from './record/members.ts';
import type { Sessions } from './record/sessions.ts';
import type { RequestDesk } from './requests/request-desk.ts';
import type { TurnLeases } from './sessions/turn-leases.ts';

/** What the transitions of a call need. */
export type Gateway = {
  readonly audit: AuditLog;
  /** This gateway's clock beside the database's. While it is off nothing that depends on time is answered. */
  readonly clock: ClockWatch;
  readonly metrics: Metrics;
  readonly rosters: Rosters;
  readonly members: Members;
  readonly sessions: Sessions;
  readonly hosts: Hosts;
  readonly grants: GrantLedger;
  readonly policy: PolicyDesk;
  /** Permission files of hosts. */
  readonly hostFiles: HostFiles;
  /** Trusts and saved rules. */
  readonly layers: RecordedLayers;
  /** What agents ask a person for, beside calls. */
  readonly requests: RequestDesk;
  readonly guardian: GuardianClient;
  readonly opinions: OpinionDesk;
  readonly hub: EventHub;
  readonly reach: Reach;
  readonly output: LiveOutput;
  /** Calls whose output goes to their agent. */
  readonly followed: Set<string>;
  /** Calls that this gateway is taking to their first lasting state, as `<agent>/<call>`. */
  readonly inWork: Set<string>;
  readonly identity: Identity;
  readonly control: Identity;
  /** True for the key of a gateway of the roster. */
  readonly isGateway: (key: string) => boolean;
  readonly broker: {
    readonly connection: NatsConnection;
    readonly jetstream: JetStreamClient;
    readonly manager: JetStreamManager;
    readonly bus: GatewayBus;
  };
  readonly freeze: FreezeWatch;
  readonly turns: TurnLeases;
  readonly waiting: WaitingCalls;
  readonly now: () => number;
  readonly atStep: AtStep<GatewayStep>;
  /** When this process began to serve. */
  readonly startedMs: number;
  /** Groups that read and decide in each queue. */
  readonly queues: Queues;
  readonly access: Access;
  readonly governance: Governance;
  /** Hardened mode of the organisation's policy. */
  readonly hardened: boolean;
  readonly blockPrivateNetwork: boolean;
  readonly logger: Logger;
};
