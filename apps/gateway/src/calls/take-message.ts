import { isSubjectToken } from '@countersign/kernel';
import {
  CallCancel,
  CallReport,
  CallSubmit,
  EnvelopeKind,
  openEnvelope,
  SessionCommand,
  SessionOpen,
} from '@countersign/protocol';
import { childTraceparent } from '@countersign/service-kit';
import type { StepAside } from '../broker/pull-loop.ts';
import type { Gateway } from '../context.ts';
import { isKeyOf, type Sender } from '../record/members.ts';
import { takeSessionCommand } from '../sessions/session-command.ts';
import { backgroundCall, cancelCall } from './cancel.ts';
import { followOutput } from './follow-output.ts';
import { openSession } from './open-session.ts';
import { submitCall } from './submit.ts';
import { takeReport } from './take-report.ts';

/** Cancels that came before their call; the later call meets them. Bounded, forgotten after ten minutes. */
const TOMBSTONE_MS = 600_000;
const MAX_TOMBSTONES = 10_000;
const tombstones = new WeakMap<Gateway, Map<string, { atMs: number; reason: string }>>();

function tombstonesOf(gateway: Gateway): Map<string, { atMs: number; reason: string }> {
  const found = tombstones.get(gateway) ?? new Map<string, { atMs: number; reason: string }>();
  tombstones.set(gateway, found);
  return found;
}

function decoded<T>(decode: (bytes: Uint8Array) => T, bytes: Uint8Array): T | undefined {
  try {
    return decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Takes one submitted call. A resend of a call that is in work here is dropped: the first message is not acked before its
 * answer, and comes again when this gateway dies.
 */
async function takeCall(gateway: Gateway, member: Sender, submit: CallSubmit, aside: StepAside): Promise<void> {
  const name = `${member.id}/${submit.callId}`;
  if (gateway.inWork.has(name)) return;
  gateway.inWork.add(name);
  try {
    followOutput(gateway, member, submit);
    await submitCall(gateway, member, { ...submit, traceparent: childTraceparent(submit.traceparent) }, aside);
  } finally {
    gateway.inWork.delete(name);
  }
  const waiting = tombstonesOf(gateway);
  const tombstone = waiting.get(name);
  waiting.delete(name);
  if (tombstone && gateway.now() - tombstone.atMs < TOMBSTONE_MS)
    await cancelCall(gateway, member.id, submit.callId, member.id, tombstone.reason);
}

/**
 * Takes a message of `cs.v1.call.<agent>` or `cs.v1.cancel.<agent>`. SECURITY: the sender in the subject, the signing key
 * and the enrolment must agree; anything else is dropped, since nobody can be answered safely. Rejects when the record
 * cannot be reached.
 */
export async function takeMessage(
  gateway: Gateway,
  subject: string,
  bytes: Uint8Array,
  aside: StepAside,
): Promise<void> {
  const id = subject.split('.').at(-1) ?? '';
  const drop = (code: string) => gateway.logger.warn({ subject, code }, 'message is refused');
  const member = await gateway.members.find('agent', id);
  if (!member) return drop('unknown_agent');
  const open = (kind: EnvelopeKind) =>
    openEnvelope(bytes, { kind, subject, issuer: isKeyOf(member, gateway.now()), nowMs: gateway.now() });
  if (subject.startsWith('cs.v1.cancel.')) {
    const opened = open(EnvelopeKind.CANCEL);
    if (!opened.ok) return drop(opened.error.code);
    const cancel = decoded((body) => CallCancel.decode(body), opened.value.body);
    if (!cancel || !isSubjectToken(cancel.callId)) return drop('malformed');
    if (cancel.background) return backgroundCall(gateway, id, cancel.callId);
    const outcome = await cancelCall(gateway, id, cancel.callId, id, cancel.reason.slice(0, 2_000));
    const waiting = tombstonesOf(gateway);
    if (outcome === 'not_found' && waiting.size < MAX_TOMBSTONES)
      waiting.set(`${id}/${cancel.callId}`, { atMs: gateway.now(), reason: cancel.reason.slice(0, 2_000) });
    return;
  }
  const signedBy = (key: string): Sender => ({ ...member, key });
  const call = open(EnvelopeKind.CALL);
  if (call.ok) {
    const submit = decoded((body) => CallSubmit.decode(body), call.value.body);
    if (!submit || !isSubjectToken(submit.callId) || !isSubjectToken(submit.sessionId)) return drop('malformed');
    return takeCall(gateway, signedBy(call.value.issuer), submit, aside);
  }
  const ended = open(EnvelopeKind.REPORT);
  if (ended.ok) {
    const report = decoded((body) => CallReport.decode(body), ended.value.body);
    return report ? takeReport(gateway, member, report) : drop('malformed');
  }
  const command = open(EnvelopeKind.SESSION_COMMAND);
  if (command.ok) {
    const asked = decoded((body) => SessionCommand.decode(body), command.value.body);
    return asked ? takeSessionCommand(gateway, signedBy(command.value.issuer), asked) : drop('malformed');
  }
  const session = open(EnvelopeKind.SESSION);
  if (!session.ok) return drop(call.error.code === 'wrong_kind' ? session.error.code : call.error.code);
  const request = decoded((body) => SessionOpen.decode(body), session.value.body);
  if (request) await openSession(gateway, signedBy(session.value.issuer), request);
  else drop('malformed');
}
