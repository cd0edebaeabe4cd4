import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { err, ok, type Result } from '@countersign/kernel';
import {
  EnvelopeKind,
  type Identity,
  InspectReply,
  InspectRequest,
  openEnvelope,
  type PolicyFile,
  sealTo,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import { isKeyOf, type Member } from '../record/members.ts';

const TIMEOUT_MS = 5_000;
/** Between a request that nobody listened to and the next. */
const AGAIN_MS = 250;
/** A reply that takes longer may be lost. */
const SECOND_MS = 1_500;
const VALID_MS = 30_000;

export type Inspection = {
  readonly paths: readonly { path: string; realPath: string; exists: boolean; contentDigest: Uint8Array }[];
  readonly diff: string;
};
export type InspectError = {
  readonly kind: 'unavailable' | 'refused';
  readonly code: string;
  readonly message: string;
};

export type InspectCall = {
  readonly callId: string;
  readonly tool: string;
  readonly project: string;
  /** Encoded CallPayload. */
  readonly payload: Uint8Array;
  readonly pathsOnly: boolean;
  /** Path rules whose matches are neither read nor shown. */
  readonly denyRead: readonly string[];
  readonly denyWrite: readonly string[];
  /** Of a command: what it starts. */
  readonly named?: { readonly programs: readonly string[]; readonly files: readonly string[] };
};

type Parts = {
  readonly connection: NatsConnection;
  readonly identity: Identity;
  readonly host: Member;
};
type Question = Partial<Parameters<typeof InspectRequest.fromPartial>[0]> & { readonly callId: string };

type Asked = { readonly connection: NatsConnection; readonly subject: string; readonly request: () => Uint8Array };

/** The answer to a request. A host that changes its keys or its connection listens to nobody for a moment, and is asked again. */
async function answerBy(until: number, { connection, subject, request }: Asked): Promise<Uint8Array> {
  for (;;) {
    try {
      return (await connection.request(subject, request(), { timeout: until - Date.now() })).data;
    } catch (error) {
      if (Date.now() + AGAIN_MS >= until) throw error;
      await sleep(AGAIN_MS);
    }
  }
}

/**
 * The first answer; undefined when none came in time. A reply is lost where either side changes its connection, so that a
 * second request follows one that is long in coming; looking twice changes nothing on a host.
 */
async function firstAnswer(asked: Asked): Promise<Uint8Array | undefined> {
  const until = Date.now() + TIMEOUT_MS;
  const end = new AbortController();
  const first = answerBy(until, asked).finally(() => end.abort());
  const second = sleep(SECOND_MS, undefined, { signal: end.signal }).then(() => answerBy(until, asked));
  return Promise.any([first, second]).catch(() => undefined);
}

/** Sends one question to a host. The reply must be signed by that host and repeat call id and nonce. */
async function askHost(
  { connection, identity, host }: Parts,
  question: Question,
): Promise<Result<InspectReply, InspectError>> {
  const nonce = new Uint8Array(randomBytes(32));
  const subject = subjects.inspect(host.id);
  const body = InspectRequest.encode(InspectRequest.fromPartial({ ...question, nonce })).finish();
  const request = () =>
    signEnvelope(identity, { kind: EnvelopeKind.INSPECT_REQUEST, subject, body, nowMs: Date.now() });
  const unavailable = (message: string) => err({ kind: 'unavailable' as const, code: '', message });
  const data = await firstAnswer({ connection, subject, request });
  if (data === undefined) return unavailable(`host \`${host.id}\` did not answer the inspection`);
  const opened = openEnvelope(data, {
    kind: EnvelopeKind.INSPECT_REPLY,
    subject,
    issuer: isKeyOf(host, Date.now()),
    nowMs: Date.now(),
    maxAgeMs: VALID_MS,
  });
  if (!opened.ok) return unavailable(`answer of host \`${host.id}\` does not verify: ${opened.error.message}`);
  const reply = InspectReply.decode(opened.value.body);
  if (reply.callId !== question.callId || Buffer.compare(reply.nonce, nonce) !== 0)
    return unavailable('answer is for another inspection');
  if (reply.errorCode !== '') return err({ kind: 'refused', code: reply.errorCode, message: reply.errorMessage });
  return ok(reply);
}

/** Asks the host for facts of a call. */
export async function inspect(
  { control, ...parts }: Parts & { readonly control: Identity },
  call: InspectCall,
): Promise<Result<Inspection, InspectError>> {
  const { callId, tool, project, pathsOnly } = call;
  const reply = await askHost(parts, {
    ...{ callId, tool, project, pathsOnly },
    sealedPayload: await sealTo(parts.host.seal_key, call.payload, callId),
    obligations: { denyRead: [...call.denyRead], denyWrite: [...call.denyWrite] },
    programs: [...(call.named?.programs ?? [])],
    programFiles: [...(call.named?.files ?? [])],
  });
  if (!reply.ok) return reply;
  const { paths, sealedDiff } = reply.value;
  const diff = sealedDiff.length === 0 ? '' : new TextDecoder().decode(await control.open(sealedDiff, callId));
  return ok({ paths, diff });
}

/** Asks the host for the permission files of a project and of the home of its run account. */
export async function inspectPolicyFiles(
  parts: Parts,
  project: string,
): Promise<Result<readonly PolicyFile[], InspectError>> {
  const reply = await askHost(parts, { callId: 'policy-files', project, policyFiles: true });
  return reply.ok ? ok(reply.value.policyFiles) : reply;
}
