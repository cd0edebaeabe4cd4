import { Buffer } from 'node:buffer';
import { ERROR_CODES, ToolResult } from '@countersign/protocol';
import type { CommandEnding, ToolError } from './host-tools.ts';

/** Most bytes kept of each output stream; head and tail stay. */
export const MAX_STREAM_BYTES = 200 * 1024;
/** Largest file content that fits an outcome envelope. */
export const MAX_CONTENT_BYTES = 700 * 1024;

/** What came of a run, before it is sealed. */
export type RunEnd = {
  readonly state: 'done' | 'failed' | 'timed_out' | 'stopped';
  readonly code: string;
  readonly reason: string;
  readonly backend: string;
  readonly violations: readonly string[];
  readonly result: ToolResult;
};

const MAX_VIOLATIONS = 100;
const MAX_REASON_CHARS = 1_000;

function cutMiddle(bytes: Uint8Array): { kept: Uint8Array; cut: number } {
  if (bytes.length <= MAX_STREAM_BYTES) return { kept: bytes, cut: 0 };
  const half = MAX_STREAM_BYTES / 2;
  const kept = Buffer.concat([bytes.subarray(0, half), bytes.subarray(bytes.length - half)]);
  return { kept, cut: bytes.length - kept.length };
}

const bounded = (text: string): string => text.slice(0, MAX_REASON_CHARS);

/** The end of a run that a tool refused or could not finish. */
export function failedEnd(error: ToolError, state: RunEnd['state'] = 'failed'): RunEnd {
  const reason = bounded(error.message);
  const result = ToolResult.fromPartial({ ok: false, reason });
  return { state, code: error.code, reason, backend: 'none', violations: [], result };
}

/** The end of a file tool that worked. */
export function fileEnd(content: Uint8Array): RunEnd {
  if (content.length > MAX_CONTENT_BYTES) {
    const message = `file has ${content.length} bytes; the limit of a result is ${MAX_CONTENT_BYTES}`;
    return failedEnd({ code: ERROR_CODES.toolFailed, message });
  }
  const result = ToolResult.fromPartial({ ok: true, content });
  return { state: 'done', code: '', reason: '', backend: 'none', violations: [], result };
}

/** The end of a command. One that exited by itself is `done`, whatever its exit code; `ok` tells them apart. */
export function commandEnd(ending: CommandEnding, stopReason: string): RunEnd {
  if (ending.ending === 'sandbox_failed') return failedEnd(ending.error);
  const stdout = cutMiddle(ending.stdout);
  const stderr = cutMiddle(ending.stderr);
  const exited = ending.ending === 'exited';
  const states = { timeout: 'timed_out', stop: 'stopped' } as const;
  const state = exited ? 'done' : ending.killedBy ? states[ending.killedBy] : 'failed';
  const reasons = { done: '', failed: 'command was ended by a signal', timed_out: 'time limit reached' } as const;
  const reason = bounded(state === 'stopped' ? stopReason : reasons[state]);
  const result = ToolResult.fromPartial({
    ok: exited && ending.exitCode === 0,
    stdout: stdout.kept,
    stderr: stderr.kept,
    truncatedBytes: BigInt(ending.truncatedBytes + stdout.cut + stderr.cut),
    exited,
    exitCode: exited ? ending.exitCode : 0,
    signal: ending.signal,
    reason,
  });
  const violations = ending.violations.slice(0, MAX_VIOLATIONS).map(bounded);
  return { state, code: '', reason, backend: ending.backend, violations, result };
}
