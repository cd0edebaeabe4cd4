import { Buffer } from 'node:buffer';
import { err, ok, type Result } from '@countersign/kernel';
import type { Obligations, Precondition } from '@countersign/protocol';
import { changesFile, ERROR_CODES } from '@countersign/protocol';
import type { HostTools, LiveCommand, ToolCall, ToolError, ToolLimits } from './host-tools.ts';
import { changeEnd, commandEnd, contentEnd, failedEnd, type RunEnd, webEnd } from './tool-result.ts';
import type { VerifiedOrder } from './verify-order.ts';

const DEFAULT_TIMEOUT_MS = 120_000;
const MAX_TIMEOUT_MS = 3_600_000;
const MAX_BACKGROUND_MS = 86_400_000;

const askedMs = (call: ToolCall): number | undefined =>
  call.tool === 'bash' || call.tool === 'background' ? call.args.timeout_ms : undefined;

/** The shortest of what the order, the call and the product allow, milliseconds. */
function timeoutOf(call: ToolCall, obligations: Obligations | undefined): number {
  const obliged = Number(obligations?.timeoutMs ?? 0n) || undefined;
  const longest = call.tool === 'background' ? MAX_BACKGROUND_MS : MAX_TIMEOUT_MS;
  const usual = call.tool === 'background' ? MAX_BACKGROUND_MS : DEFAULT_TIMEOUT_MS;
  return Math.min(askedMs(call) ?? obliged ?? usual, obliged ?? longest, longest);
}

/** How long a command may go on in the background, milliseconds from the moment it was sent there. */
export const backgroundLimitOf = (call: ToolCall, limits: Pick<ToolLimits, 'timeoutMs'>): number =>
  call.tool === 'background' ? limits.timeoutMs : MAX_BACKGROUND_MS;

/** What the file that a call changes must hold: what the decision was made on, where it looked at the content. */
function expectedOf({ order, call }: VerifiedOrder): Uint8Array | 'absent' | undefined {
  const [named] = order.preconditions;
  if (!named || !changesFile(call.tool)) return undefined;
  if (named.realPath === '') return 'absent';
  return named.contentDigest.length > 0 ? named.contentDigest : undefined;
}

/** Bounds of an order on this host: its obligations and the runner's own masks, which no order lifts. */
export function limitsOf(verified: VerifiedOrder, masks: readonly string[], signal: AbortSignal): ToolLimits {
  const { order, call } = verified;
  const expected = expectedOf(verified);
  return {
    callId: order.callId,
    sessionId: order.sessionId,
    project: order.project,
    profile: order.profile,
    denyRead: [...masks, ...(order.obligations?.denyRead ?? [])],
    denyWrite: [...masks, ...(order.obligations?.denyWrite ?? [])],
    hosts: order.obligations?.hosts ?? [],
    hardened: order.obligations?.hardened ?? false,
    blockPrivateNetwork: order.obligations?.blockPrivateNetwork ?? false,
    backend: order.obligations?.backend ?? '',
    backendFallback: order.obligations?.backendFallback ?? false,
    environmentNames: order.obligations?.environment ?? [],
    timeoutMs: timeoutOf(call, order.obligations),
    signal,
    ...(expected === undefined ? {} : { expected }),
  };
}

function holds(wanted: Precondition, fact: { realPath: string; exists: boolean; contentDigest: Uint8Array }): boolean {
  if (wanted.realPath === '') return !fact.exists;
  if (fact.realPath !== wanted.realPath) return false;
  return wanted.contentDigest.length === 0 || Buffer.compare(fact.contentDigest, wanted.contentDigest) === 0;
}

/** The first precondition that does not hold any more, as an error; undefined when all hold. */
export async function brokenPrecondition(
  tools: HostTools,
  verified: VerifiedOrder,
  denyRead: readonly string[],
): Promise<ToolError | undefined> {
  const { preconditions, project } = verified.order;
  if (preconditions.length === 0) return undefined;
  const paths = preconditions.map(({ path }) => path);
  const facts = await tools.facts(paths, { project, denyRead }).catch(() => UNREADABLE);
  if (!facts.ok) return facts.error;
  const broken = preconditions.find((wanted) => {
    const fact = facts.value.find(({ path }) => path === wanted.path);
    return !fact || !holds(wanted, fact);
  });
  if (!broken) return undefined;
  const message = `\`${broken.path}\` changed after the decision; submit the call again`;
  return { code: ERROR_CODES.changedSinceRequest, message };
}

const UNREADABLE = err({ code: ERROR_CODES.toolFailed, message: 'preconditions could not be read' });

const stopReasonOf = (signal: AbortSignal): string => String(signal.reason ?? 'stopped');

/** A call that a host's tools carry out. */
type HostCall = Exclude<ToolCall, { tool: 'process' }>;

async function answerOf(
  tools: HostTools,
  call: HostCall,
  limits: ToolLimits,
  live?: LiveCommand,
): Promise<Result<RunEnd, ToolError>> {
  switch (call.tool) {
    case 'bash':
    case 'background':
      return ok(commandEnd(await tools.bash(call.args, limits, live), stopReasonOf(limits.signal)));
    case 'read': {
      const answer = await tools.read(call.args, limits);
      return answer.ok ? ok(contentEnd(answer.value)) : answer;
    }
    case 'search': {
      const answer = await tools.search(call.args, limits);
      return answer.ok ? ok(contentEnd(new TextEncoder().encode(answer.value.content), answer.value.note)) : answer;
    }
    case 'web_fetch':
    case 'web_search':
    case 'browser': {
      const answer = await tools.web(call, limits);
      return answer.ok ? ok(webEnd(answer.value)) : answer;
    }
    default: {
      const answer = await tools.change(call, limits);
      return answer.ok ? ok(changeEnd(answer.value)) : answer;
    }
  }
}

function endOf(answer: Result<RunEnd, ToolError>, limits: ToolLimits): RunEnd {
  if (answer.ok) return answer.value;
  if (!limits.signal.aborted) return failedEnd(answer.error);
  return failedEnd({ code: answer.error.code, message: stopReasonOf(limits.signal) }, 'stopped');
}

/** Runs the call. Never rejects: a tool that throws is a failed run. */
export async function executeTool(
  tools: HostTools,
  call: HostCall,
  limits: ToolLimits,
  live?: LiveCommand,
): Promise<RunEnd> {
  if (limits.signal.aborted) {
    return failedEnd({ code: '', message: stopReasonOf(limits.signal) }, 'stopped');
  }
  try {
    return endOf(await answerOf(tools, call, limits, live), limits);
  } catch {
    return failedEnd({ code: ERROR_CODES.toolFailed, message: `\`${call.tool}\` failed in the runner` });
  }
}
