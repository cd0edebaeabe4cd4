import { type AppendReply, type CallRecord, ERROR_CODES, PasskeyAssertion } from '@countersign/protocol';
import type { Principal } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import type { Ruling } from '../governance/governance.ts';
import { maskText } from '../masking.ts';
import { callEntry, json } from '../record/entries.ts';

/** Documents of a ruling as the record takes them. */
export const rulingDocuments = ({ changes }: Ruling) =>
  changes.map((change) => ({ ...change, value: json(change.value) }));

/** The assertion of an answer as its entry keeps it, so that anybody can verify it later: protobuf in base64. */
export const signatureOf = ({ own }: Pick<Ruling, 'own'>): { readonly assertion?: string } =>
  own ? { assertion: Buffer.from(PasskeyAssertion.encode(own).finish()).toString('base64') } : {};

/** True when the record refused because another answer came in between. */
export const isOvertaken = (reply: AppendReply): boolean => reply.refusal?.code === ERROR_CODES.auditConflict;

/** Records an answer that does not decide yet, and tells the desk who is still missing. */
export async function recordPartial(
  gateway: Gateway,
  call: CallRecord,
  by: Principal,
  answer: { readonly answer: string; readonly reason: string; readonly viewDigest: string },
  ruling: Ruling,
): Promise<AppendReply> {
  const { callId } = call;
  const approver = { subject: by.name, method: by.method, shown: answer.viewDigest, ...signatureOf(ruling) };
  const { missing } = ruling.standing;
  const detail = { answer: answer.answer, reason: maskText(answer.reason), missing, ...ruling.detail };
  const reply = await gateway.audit.append({
    entries: [
      callEntry({
        ...{ callId, type: 'approval.answered', attempt: ruling.attempt, nowMs: gateway.now() },
        body: { approver, detail },
      }),
    ],
    documents: rulingDocuments(ruling),
    expectedViewDigest: Buffer.from(answer.viewDigest, 'hex'),
  });
  if (!reply.refusal)
    gateway.hub.emit('approval_request', { callId, state: call.state, answered: by.name, missing }, call.queue);
  return reply;
}
