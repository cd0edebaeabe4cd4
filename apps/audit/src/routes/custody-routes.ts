import type { Result } from '@countersign/kernel';
import { ApplyRetentionReply, type CustodyServer, EraseReply, HoldList } from '@countersign/protocol';
import { type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import type { Custody, CustodyRefusal } from '../custody/custody.ts';
import type { HoldValue } from '../custody/held.ts';

const STATUS: Readonly<Record<CustodyRefusal['code'], status>> = {
  invalid: status.INVALID_ARGUMENT,
  not_found: status.NOT_FOUND,
  refused: status.FAILED_PRECONDITION,
};

const listOf = (holds: readonly HoldValue[]): HoldList =>
  HoldList.fromPartial({
    holds: holds.map(({ scope, reason, subject, set_ms }) => ({ scope, reason, subject, setMs: BigInt(set_ms) })),
  });

/** The gRPC service of holds, erasure and retention. What is answered is durable. */
export function custodyRoutes(custody: Custody, log: (error: unknown) => void): CustodyServer {
  const route =
    <Request, Value, Reply>(
      work: (request: Request) => Promise<Result<Value, CustodyRefusal>>,
      replyOf: (value: Value) => Reply,
    ) =>
    ({ request }: ServerUnaryCall<Request, Reply>, reply: sendUnaryData<Reply>) => {
      work(request).then(
        (done) =>
          done.ok
            ? reply(null, replyOf(done.value))
            : reply({ code: STATUS[done.error.code], details: done.error.message }),
        (error: unknown) => {
          log(error);
          reply({ code: status.UNAVAILABLE, details: 'it was not done, or not to its end; ask again' });
        },
      );
    };
  return {
    setHold: route((request) => custody.setHold(request), listOf),
    releaseHold: route((request) => custody.releaseHold(request), listOf),
    listHolds: route(async () => ({ ok: true as const, value: await custody.holds() }), listOf),
    erase: route(
      (request) => custody.erase(request),
      (done) => EraseReply.fromPartial(done),
    ),
    applyRetention: route(
      ({ apply, subject }) => custody.applyRetention(subject, apply),
      ({ sessions, held, more, entries, keptBecause }) =>
        ApplyRetentionReply.fromPartial({ sessions, heldSessions: held, more, entries: BigInt(entries), keptBecause }),
    ),
  };
}
