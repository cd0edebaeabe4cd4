import { ERROR_CODES } from '@countersign/protocol';
import type { CallOf } from '../work/host-tools.ts';
import { contentEnd, failedEnd, type RunEnd } from '../work/tool-result.ts';
import type { ProcessTable } from './process-table.ts';

const DEFAULT_LINES = 100;

/** Carries out the tool `process`: an agent sees and stops the commands of its own session, and no others. */
export function processTool(table: ProcessTable, args: CallOf<'process'>['args'], sessionId: string): RunEnd {
  const { action, id = '' } = args;
  const unknown = failedEnd({
    code: ERROR_CODES.toolFailed,
    message: `no command \`${id}\` runs in this session; \`list\` names those that do`,
  });
  if (action === 'list') {
    const lines = table.list(sessionId).map((view) => `${JSON.stringify(view)}\n`);
    return contentEnd(new TextEncoder().encode(lines.join('')));
  }
  if (action === 'stop') {
    return table.stop(id, sessionId, 'stopped by the agent') ? contentEnd(new Uint8Array()) : unknown;
  }
  const tail = table.tail(id, args.max_lines ?? DEFAULT_LINES, sessionId);
  return tail ? contentEnd(tail.text, tail.earlierBytes > 0 ? `${tail.earlierBytes} bytes came before` : '') : unknown;
}
