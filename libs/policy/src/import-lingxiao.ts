import type { Result } from '@countersign/kernel';
import { type PolicyFile, type PolicyFileProblem, parsePolicyFile } from './policy-file.ts';
import { canonicalTool } from './tools.ts';
import type { LayerName } from './types.ts';

/** The labels that the system shows for the permission modes. */
const LABELS: Readonly<Record<string, string>> = { standard: 'dev', approved: 'networked' };
const LISTS = ['allowRules', 'askRules', 'denyRules'] as const;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A rule under this product's name for its tool; anything that is no rule is left for the check to name. */
function rule(value: unknown): unknown {
  if (!isRecord(value) || !('toolName' in value)) return value;
  const { toolName } = value;
  return typeof toolName === 'string' && !toolName.includes('*')
    ? { ...value, toolName: canonicalTool(toolName) }
    : value;
}

function adapt(value: unknown): unknown {
  if (!isRecord(value)) return value;
  const { mode } = value;
  const lists = LISTS.flatMap((name) => {
    const list = value[name];
    return list === undefined ? [] : [[name, Array.isArray(list) ? list.map(rule) : list]];
  });
  const known = typeof mode === 'string' ? { mode: LABELS[mode] ?? mode } : {};
  // Its backend follows the mode: the app-guard in `yolo`, bubblewrap otherwise.
  const backend =
    known.mode === undefined || (value.sandboxBackend ?? 'auto') !== 'auto'
      ? {}
      : { sandboxBackend: known.mode === 'yolo' ? 'app-guard' : 'bubblewrap' };
  return { ...value, ...known, ...backend, ...Object.fromEntries(lists) };
}

/**
 * Makes a policy layer of a permission file of the system Lingxiao, a `ToolPermissionContext` in JSON: tools and modes under
 * this product's names, and the backend that follows the mode where the file names none. What else the file leaves out stays
 * open for other layers. A key or rule that is not understood refuses the whole file: a deny that was dropped would be a hole.
 */
export const importLingxiao = (
  text: string,
  file: string,
  layerName: LayerName = 'user',
): Result<PolicyFile, readonly PolicyFileProblem[]> => parsePolicyFile(text, file, layerName, adapt);
