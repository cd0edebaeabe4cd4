import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { CallPayload, type CallRecord, CallSubmit, ERROR_CODES, type ErrorCode, sealTo } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { submitCall } from './submit.ts';

type Refusal = { readonly code: ErrorCode; readonly message: string };

/**
 * Submits the rollback of a change as a call in the session that made it, under that agent's name: the policy judges it like
 * a write, and a person decides on it where the policy asks. Returns the new call; nothing has run then unless the policy
 * allows writes by itself.
 */
export async function requestRollback(
  gateway: Gateway,
  record: CallRecord,
  options: { readonly by: string; readonly force: boolean },
): Promise<Result<{ callId: string; state: string; reason: string }, Refusal>> {
  const [change] = record.fileChanges;
  if (!change) return err({ code: ERROR_CODES.notFound, message: 'this call changed no file' });
  const member = await gateway.members.find('agent', record.agent);
  if (!member) return err({ code: ERROR_CODES.unknownAgent, message: `agent \`${record.agent}\` is not enrolled` });
  const callId = makeId('call', gateway.now(), randomBytes);
  const args = JSON.stringify({ path: change.path, change: change.id, ...(options.force ? { force: true } : {}) });
  const payload = CallPayload.encode({ salt: randomBytes(32), arguments: new TextEncoder().encode(args) }).finish();
  const submit = CallSubmit.fromPartial({
    callId,
    sessionId: record.sessionId,
    tool: 'rollback',
    sealedPayload: await sealTo(gateway.control.sealPublicKey, payload, callId),
    executor: 'runner',
  });
  await submitCall(gateway, { ...member, tools: [...member.tools, 'rollback'] }, submit);
  gateway.logger.info({ call: callId, rollsBack: change.id, by: maskText(options.by) }, 'rollback was requested');
  const made = await gateway.audit.getCall('', callId);
  if (!made) return err({ code: ERROR_CODES.auditUnavailable, message: 'the rollback was not recorded; ask again' });
  return ok({ callId, state: made.state, reason: made.reason });
}
