import type { AppendReply, AuditServer, FreezeState } from '@countersign/protocol';
import { type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import type { FreezeChange } from '../freeze/freeze-state.ts';
import type { RouteContext } from './audit-routes.ts';

const STATUS: Readonly<Record<string, status>> = {
  'countersign.audit.invalid': status.INVALID_ARGUMENT,
  'countersign.audit.not_found': status.NOT_FOUND,
  'countersign.audit.conflict': status.FAILED_PRECONDITION,
};

const REFUSED = Symbol('refused');
type Refusal = { readonly [REFUSED]: true; readonly code: status; readonly details: string };

function refusalOf(reply: AppendReply): Refusal | undefined {
  if (!reply.refusal) return undefined;
  const code = STATUS[reply.refusal.code] ?? status.UNAVAILABLE;
  return { [REFUSED]: true, code, details: reply.refusal.message };
}

async function enrolledHosts(context: RouteContext): Promise<string[]> {
  const { rows } = await context.reader.query<{ key: string }>(
    "select key from audit.document where kind = 'member' and key like 'host:%' order by key",
  );
  return rows.map((row) => row.key.slice('host:'.length));
}

async function present(context: RouteContext): Promise<FreezeState> {
  const hosts = await enrolledHosts(context);
  const { epoch, freezes, confirmations } = context.sequencer.freezes;
  return {
    epoch,
    freezes: [...freezes.values()],
    confirmations: [...confirmations.values()],
    unconfirmedHosts: hosts.filter((host) => (confirmations.get(host)?.epoch ?? 0n) < epoch),
  };
}

async function change(context: RouteContext, wanted: FreezeChange): Promise<FreezeState | Refusal> {
  if (wanted.kind === 'confirm' && !(await enrolledHosts(context)).includes(wanted.host)) {
    return { [REFUSED]: true, code: status.NOT_FOUND, details: 'no such host is enrolled' };
  }
  const reply = await context.sequencer.changeFreeze(wanted);
  const refused = refusalOf(reply);
  if (refused) return refused;
  if (wanted.kind !== 'confirm' && !reply.replayed) context.publishBeat();
  return present(context);
}

/** Freeze of the `Audit` service. What is answered is durable, and the beat that tells the hosts has been sent. */
export function freezeRoutes(
  context: RouteContext,
): Pick<AuditServer, 'setFreeze' | 'clearFreeze' | 'getFreeze' | 'confirmFreeze'> {
  const route =
    <Request>(work: (request: Request) => Promise<FreezeState | Refusal>) =>
    (call: ServerUnaryCall<Request, FreezeState>, reply: sendUnaryData<FreezeState>) => {
      work(call.request).then(
        (found) => (REFUSED in found ? reply({ code: found.code, details: found.details }) : reply(null, found)),
        (error: unknown) => {
          context.log(error);
          reply({ code: status.INTERNAL, details: 'the freeze state could not be read; see the audit log' });
        },
      );
    };
  return {
    setFreeze: route(({ scope, reason, subject, stopRunning }) =>
      change(context, { kind: 'set', scope, reason, subject, stopRunning }),
    ),
    clearFreeze: route(({ scope, reason, subject }) => change(context, { kind: 'clear', scope, reason, subject })),
    getFreeze: route(() => present(context)),
    confirmFreeze: route(({ host, epoch, running }) => change(context, { kind: 'confirm', host, epoch, running })),
  };
}
