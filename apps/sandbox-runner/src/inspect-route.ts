import { type Clock, err, ok, type Result } from '@countersign/kernel';
import {
  CallPayload,
  EnvelopeKind,
  ERROR_CODES,
  type Identity,
  InspectReply,
  InspectRequest,
  openEnvelope,
  sealTo,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import { type Logger, Slots } from '@countersign/service-kit';
import type { ProcessTable } from './processes/process-table.ts';
import type { CallOf, HostTools, Inspection, ToolError } from './work/host-tools.ts';
import { parseToolCall } from './work/parse-tool-call.ts';
import { SequenceGuard } from './work/sequence-guard.ts';

const VALID_MS = 30_000;
const MAX_DIFF_BYTES = 512 * 1024;
const MAX_AT_ONCE = 8;
/** Inspections that wait for their turn: those of a few gateways that each take 64 calls at once. */
const MAX_WAITING = 256;
/** Nobody waits longer for the answer. */
const MAX_WAIT_MS = 5_000;
const NONCE_BYTES = 32;
const TAIL_LINES = 100;

export type InspectOptions = {
  readonly host: string;
  readonly identity: Identity;
  readonly controlSealKey: () => string;
  readonly isGateway: (issuer: string) => boolean;
  readonly tools: HostTools;
  readonly masks: readonly string[];
  readonly processes: ProcessTable;
  readonly clock: Clock;
  readonly logger: Logger;
};

type InspectAnswer = (bytes: Uint8Array, deliveredOn: string) => Promise<Uint8Array | undefined>;

/** Last output of a running command, for people; it travels where a diff would. */
function tailOf({ processes }: InspectOptions, args: CallOf<'process'>['args']): Result<Inspection, ToolError> {
  const tail = processes.tail(args.id ?? '', args.max_lines ?? TAIL_LINES);
  if (!tail) return err({ code: ERROR_CODES.toolFailed, message: 'the call does not run on this host' });
  return ok({ paths: [], diff: new TextDecoder().decode(tail.text) });
}

async function inspectCall(options: InspectOptions, request: InspectRequest): Promise<Result<Inspection, ToolError>> {
  let payload: CallPayload;
  try {
    payload = CallPayload.decode(await options.identity.open(request.sealedPayload, request.callId));
  } catch {
    return err({ code: ERROR_CODES.digestMismatch, message: 'arguments do not open with the key of this host' });
  }
  const call = parseToolCall(request.tool, payload.arguments);
  if (!call.ok) return call;
  if (call.value.tool === 'process') return tailOf(options, call.value.args);
  const { project, pathsOnly, obligations } = request;
  const denyRead = [...options.masks, ...(obligations?.denyRead ?? [])];
  const denyWrite = [...options.masks, ...(obligations?.denyWrite ?? [])];
  try {
    const found = await options.tools.inspect(call.value, {
      ...{ project, denyRead, denyWrite, pathsOnly },
      named: { programs: request.programs, files: request.programFiles },
    });
    if (!found.ok) return found;
    if (Buffer.byteLength(found.value.diff) <= MAX_DIFF_BYTES) return found;
    return err({ code: ERROR_CODES.toolFailed, message: `diff is larger than ${MAX_DIFF_BYTES} bytes` });
  } catch {
    return err({ code: ERROR_CODES.toolFailed, message: 'inspection failed in the runner' });
  }
}

/** The permission files alone. */
async function replyWithFiles({ tools }: InspectOptions, request: InspectRequest): Promise<InspectReply> {
  const { callId, nonce, project } = request;
  const files = await tools
    .policyFiles(project)
    .catch(() => err({ code: ERROR_CODES.toolFailed, message: 'permission files cannot be read in the runner' }));
  if (files.ok) return InspectReply.fromPartial({ callId, nonce, policyFiles: [...files.value] });
  return InspectReply.fromPartial({ callId, nonce, errorCode: files.error.code, errorMessage: files.error.message });
}

async function replyTo(options: InspectOptions, request: InspectRequest): Promise<InspectReply> {
  if (request.policyFiles) return replyWithFiles(options, request);
  const inspected = await inspectCall(options, request);
  const { callId, nonce } = request;
  if (!inspected.ok) {
    const { code: errorCode, message: errorMessage } = inspected.error;
    return InspectReply.fromPartial({ callId, nonce, errorCode, errorMessage });
  }
  const { paths, diff } = inspected.value;
  const seal = diff && !request.pathsOnly;
  const sealedDiff = seal
    ? await sealTo(options.controlSealKey(), new TextEncoder().encode(diff), callId)
    : new Uint8Array();
  return InspectReply.fromPartial({ callId, nonce, paths: [...paths], sealedDiff });
}

function readRequest(
  options: InspectOptions,
  bytes: Uint8Array,
  subject: string,
): Result<[string, InspectRequest], string> {
  const { isGateway, clock } = options;
  const kind = EnvelopeKind.INSPECT_REQUEST;
  const opened = openEnvelope(bytes, { kind, subject, issuer: isGateway, nowMs: clock.now(), maxAgeMs: VALID_MS });
  if (!opened.ok) return err(opened.error.code);
  try {
    const request = InspectRequest.decode(opened.value.body);
    return request.nonce.length === NONCE_BYTES ? ok([opened.value.id, request]) : err('bad_nonce');
  } catch {
    return err('malformed');
  }
}

/**
 * Answers one inspection request with a signed reply that repeats its call id and nonce. Inspections beyond those that run
 * at once wait for their turn. Undefined, and so silence, for what no gateway signed in the last 30 s, for a repetition, and
 * when too many wait or one waited too long.
 */
export function inspectRoute(options: InspectOptions): InspectAnswer {
  const guard = new SequenceGuard();
  // Every decision needs the files, so that inspections of calls do not take their places.
  const slots = { call: new Slots(MAX_AT_ONCE, MAX_WAITING), files: new Slots(MAX_AT_ONCE, MAX_WAITING) };
  return async (bytes, deliveredOn) => {
    const subject = subjects.inspect(options.host);
    if (deliveredOn !== subject) return undefined;
    const read = readRequest(options, bytes, subject);
    if (!read.ok || !guard.isNew(read.value[0])) {
      options.logger.warn({ code: read.ok ? 'repeated' : read.error }, 'inspection is refused');
      return undefined;
    }
    const request = read.value[1];
    const giveBack = await slots[request.policyFiles ? 'files' : 'call'].take(AbortSignal.timeout(MAX_WAIT_MS));
    if (typeof giveBack === 'string') {
      options.logger.warn({ code: giveBack }, 'too many inspections at once; one is not answered');
      return undefined;
    }
    try {
      const body = InspectReply.encode(await replyTo(options, request)).finish();
      const nowMs = options.clock.now();
      return signEnvelope(options.identity, { kind: EnvelopeKind.INSPECT_REPLY, subject, body, nowMs });
    } finally {
      giveBack();
    }
  };
}
