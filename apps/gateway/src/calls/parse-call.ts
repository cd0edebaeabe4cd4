import { err, isSubjectToken, ok, type Result } from '@countersign/kernel';
import {
  CallPayload,
  type CallSubmit,
  callDigest,
  canonicalEnvelope,
  ERROR_CODES,
  type ErrorCode,
  type Identity,
  normaliseTool,
  parseIJson,
  toolSchema,
} from '@countersign/protocol';
import { z } from 'zod';
import type { Member } from '../record/members.ts';
import { runsAtAgent } from './hand-over.ts';

export type CallRefusal = { readonly code: ErrorCode; readonly message: string };

/** A call whose form is right. One parse feeds policy, view and runner. */
export type ParsedCall = {
  readonly submit: CallSubmit;
  /** Own name of a tool of the runner, or the name that the agent gives to one that it carries out itself. */
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** Encoded CallPayload, as the agent sealed it. */
  readonly payload: Uint8Array;
  readonly canonical: Uint8Array;
  readonly digest: Uint8Array;
};

const MAX_TOOL_NAME = 128;
/** What an agent may ask to tighten; empty for nothing. */
const TIGHTEN: readonly string[] = ['', 'ask', 'deny'];
/** Arguments of a tool that no runner has: any object. */
const anyArguments = z.record(z.string(), z.unknown());

/** One problem of the arguments, with the field or the unknown keys named. */
const describe = (issue: z.core.$ZodIssue): string =>
  issue.code === 'unrecognized_keys'
    ? `unknown key ${issue.keys.map((key) => `\`${key.slice(0, 80)}\``).join(', ')}`
    : `\`${issue.path.join('.')}\`: ${issue.message.toLowerCase()}`;

const refuse = (code: ErrorCode, message: string) => err({ code, message });

async function openPayload(
  submit: CallSubmit,
  control: Identity,
): Promise<Result<{ raw: Uint8Array; payload: CallPayload }, CallRefusal>> {
  try {
    const raw = await control.open(submit.sealedPayload, submit.callId);
    const payload = CallPayload.decode(raw);
    if (payload.salt.length === 32) return ok({ raw, payload });
  } catch {
    // answered below
  }
  return refuse(
    ERROR_CODES.invalidArguments,
    'payload does not open; seal it to the control key of the roster with the call id',
  );
}

/** Checks identifiers, tool, allow-list and arguments of a submitted call. */
export async function parseCall(
  submit: CallSubmit,
  member: Member,
  control: Identity,
): Promise<Result<ParsedCall, CallRefusal>> {
  if (!isSubjectToken(submit.callId))
    return refuse(ERROR_CODES.invalidArguments, 'call id is not 1 to 64 of A-Z a-z 0-9 _ -');
  if (submit.turnId !== '' && !isSubjectToken(submit.turnId))
    return refuse(ERROR_CODES.invalidArguments, 'turn id is not 1 to 64 of A-Z a-z 0-9 _ -');
  if (submit.executor !== 'runner' && !runsAtAgent(submit))
    return refuse(ERROR_CODES.invalidArguments, 'executor is neither `runner` nor `agent`');
  // SECURITY: a word that we do not know was meant to hold the call back.
  if (!TIGHTEN.includes(submit.tighten))
    return refuse(ERROR_CODES.invalidArguments, 'tighten is neither `ask` nor `deny`');
  const known = normaliseTool(submit.tool);
  const tool = known ?? (runsAtAgent(submit) && submit.tool.length <= MAX_TOOL_NAME ? submit.tool : undefined);
  if (!tool) return refuse(ERROR_CODES.unknownTool, `tool \`${submit.tool.slice(0, 80)}\` is not known`);
  if (!member.tools.includes(tool))
    return refuse(ERROR_CODES.unknownTool, `tool \`${tool}\` is not on the allow-list of this agent`);
  const opened = await openPayload(submit, control);
  if (!opened.ok) return opened;
  const json = parseIJson(opened.value.payload.arguments);
  if (!json.ok) return refuse(ERROR_CODES.invalidArguments, json.error.message);
  const args = (known ? toolSchema(known) : anyArguments).safeParse(json.value);
  if (!args.success) {
    const problem = args.error.issues.map(describe).join('; ');
    return refuse(ERROR_CODES.invalidArguments, `arguments do not fit \`${tool}\`: ${problem}`);
  }
  const canonical = canonicalEnvelope({
    agent: member.id,
    callId: submit.callId,
    sessionId: submit.sessionId,
    tool,
    executor: submit.executor,
    deadlineMs: Number(submit.deadlineMs),
  });
  const digest = callDigest(opened.value.payload.salt, opened.value.payload.arguments, canonical);
  return ok({
    submit,
    tool,
    args: args.data as Readonly<Record<string, unknown>>,
    payload: opened.value.raw,
    canonical,
    digest,
  });
}
