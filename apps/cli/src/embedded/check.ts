import { setTimeout as delay } from 'node:timers/promises';
import type { SubmittedCall } from '@countersign/agent';
import { rosterKey } from '@countersign/protocol';
import { loadRoster } from '@countersign/service-kit';
import { verifyExport } from '../bundle/verify-export.ts';
import type { CallDetail, GatewayClient } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
import { RefusedError } from '../output.ts';
import { logNameOf } from './config-files.ts';
import type { Installation } from './installation.ts';
import { endOf, type SampleLine } from './samples.ts';

const PENDING_WAIT_MS = 30_000;

async function pendingCall(approver: GatewayClient, callId: string): Promise<CallDetail & { viewDigest: string }> {
  for (const deadline = Date.now() + PENDING_WAIT_MS; Date.now() < deadline; await delay(200)) {
    const call = await approver.callById(callId);
    if (!call.ok && call.error.status !== 404) accepted(call);
    if (call.ok && call.value.state === 'pending' && call.value.viewDigest) {
      return { ...call.value, viewDigest: call.value.viewDigest };
    }
  }
  throw new RefusedError(`call \`${callId}\` does not wait for a person`, 'countersign.cli.not_pending');
}

/** Approves the waiting write through the API as an approver and waits for its result. */
export async function approveWaiting({ client }: Installation, waiting: SubmittedCall): Promise<SampleLine> {
  const approver = client('local-approver');
  const { viewDigest } = await pendingCall(approver, waiting.callId);
  accepted(await approver.decide(waiting.callId, { answer: 'approve', reason: 'start check', viewDigest }));
  const { state, decidedBy, reason } = await endOf(waiting);
  const text = `allow by ${decidedBy}: ${state}${reason ? `, ${reason}` : ''}`;
  return { title: 'write after approval', asExpected: state === 'done' && decidedBy === 'human', text };
}

/** Exports the log and verifies it offline. */
export async function verifyLog({ client, data, endpoints, keys }: Installation): Promise<SampleLine> {
  const exported = accepted(await client('local-auditor').exportLog());
  const log = rosterKey(loadRoster(keys.rosterFile, endpoints.rootKey), 'log');
  const { problems, entries } = verifyExport(exported, { publicKey: log.signKey, name: logNameOf(data) });
  const first = problems.slice(0, 3).map(({ index, code, message }) => `entry ${index ?? '-'} ${code}: ${message}`);
  const text = [`${entries} entries, ${problems.length} problems`, ...first].join('; ');
  return { title: 'log verified offline', asExpected: problems.length === 0 && entries > 0, text };
}
