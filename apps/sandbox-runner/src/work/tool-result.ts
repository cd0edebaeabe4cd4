import { ERROR_CODES, ToolResult } from '@countersign/protocol';
import type { FileChange } from '../changes/file-change.ts';
import type { ChangeAnswer, CommandEnding, ToolError, WebAnswer } from './host-tools.ts';
import { shareOutput } from './share-output.ts';

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
  readonly fileChanges: readonly FileChange[];
  /** Hops of the egress proxy. */
  readonly egress?: readonly string[];
};

const MAX_VIOLATIONS = 100;
const MAX_REASON_CHARS = 1_000;
/** Most of a diff that goes into a result. */
const MAX_DIFF_CHARS = 64_000;

/** What an agent is told of a backend that checks only what a command names. */
const NOT_ISOLATED = 'not isolated: the command ran under the app-guard';

const bounded = (text: string): string => text.slice(0, MAX_REASON_CHARS);

/** The end of a run that a tool refused or could not finish. */
export function failedEnd(error: ToolError, state: RunEnd['state'] = 'failed'): RunEnd {
  const reason = bounded(error.message);
  const result = ToolResult.fromPartial({ ok: false, reason });
  return { state, code: error.code, reason, backend: 'none', violations: [], result, fileChanges: [] };
}

/** The end of a tool that only read. `note` tells what the content leaves out. */
export function contentEnd(content: Uint8Array, note = ''): RunEnd {
  if (content.length > MAX_CONTENT_BYTES) {
    const message = `file has ${content.length} bytes; the limit of a result is ${MAX_CONTENT_BYTES}`;
    return failedEnd({ code: ERROR_CODES.toolFailed, message });
  }
  const result = ToolResult.fromPartial({ ok: true, content, reason: bounded(note) });
  return { state: 'done', code: '', reason: '', backend: 'none', violations: [], result, fileChanges: [] };
}

/** The end of a call that read the web. */
export const webEnd = ({ content, note, egress }: WebAnswer): RunEnd => ({
  ...contentEnd(typeof content === 'string' ? new TextEncoder().encode(content) : content, note),
  egress: egress.map(bounded),
});

/** The end of a change; its content is the unified diff. */
export function changeEnd({ change, diff }: ChangeAnswer): RunEnd {
  const shown = diff.length <= MAX_DIFF_CHARS ? diff : `${diff.slice(0, MAX_DIFF_CHARS)}\nthe diff is cut here\n`;
  return { ...contentEnd(new TextEncoder().encode(shown)), fileChanges: [change] };
}

/** The end of a command. One that exited by itself is `done`, whatever its exit code; `ok` tells them apart. */
export function commandEnd(ending: CommandEnding, stopReason: string): RunEnd {
  if (ending.ending === 'sandbox_failed') return failedEnd(ending.error);
  const { stdout, stderr } = shareOutput(ending.stdout, ending.stderr);
  const exited = ending.ending === 'exited';
  const states = { timeout: 'timed_out', stop: 'stopped' } as const;
  const state = exited ? 'done' : ending.killedBy ? states[ending.killedBy] : 'failed';
  const reasons = { done: '', failed: 'command was ended by a signal', timed_out: 'time limit reached' } as const;
  const reason = bounded(state === 'stopped' ? stopReason : reasons[state]);
  const result = ToolResult.fromPartial({
    ok: exited && ending.exitCode === 0,
    stdout: stdout.bytes,
    stderr: stderr.bytes,
    truncatedBytes: BigInt(ending.truncatedBytes + stdout.cutBytes + stderr.cutBytes),
    exited,
    exitCode: exited ? ending.exitCode : 0,
    signal: ending.signal,
    reason: reason === '' && ending.backend === 'app-guard' ? NOT_ISOLATED : reason,
  });
  const violations = ending.violations.slice(0, MAX_VIOLATIONS).map(bounded);
  const egress = (ending.egress ?? []).map(bounded);
  return { state, code: '', reason, backend: ending.backend, violations, result, fileChanges: [], egress };
}
