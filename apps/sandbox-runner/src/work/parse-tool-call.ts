import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, normaliseTool, parseIJson, toolSchema } from '@countersign/protocol';
import type { ToolCall, ToolError } from './host-tools.ts';

/** Parses exact argument bytes once; the value is what runs. */
export function parseToolCall(name: string, args: Uint8Array): Result<ToolCall, ToolError> {
  const tool = normaliseTool(name);
  if (!tool) return err({ code: ERROR_CODES.unknownTool, message: `no runner executes \`${name.slice(0, 64)}\`` });
  const json = parseIJson(args);
  if (!json.ok) return err({ code: ERROR_CODES.invalidArguments, message: 'arguments are not I-JSON' });
  const parsed = toolSchema(tool).safeParse(json.value);
  if (!parsed.success) {
    return err({ code: ERROR_CODES.invalidArguments, message: `arguments do not fit the schema of \`${tool}\`` });
  }
  return ok({ tool, args: parsed.data } as ToolCall);
}
