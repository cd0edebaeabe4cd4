import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import {
  type LayerSource,
  loadPolicySet,
  type PermissionMode,
  type PolicyFile,
  type PolicySet,
  parsePolicyFile,
  showProblem,
} from '@countersign/policy';
import { EXIT, RefusedError } from '../output.ts';

const MAX_BYTES = 256 * 1024 * 1024;
const LAYERS = ['managed', 'user', 'project', 'local', 'session'] as const;

/** A text file named on the command line. Throws a RefusedError with exit code 2 when it cannot be read. */
export function readInput(file: string): string {
  try {
    if (statSync(file).size > MAX_BYTES)
      throw new RefusedError(`\`${file}\` is over 256 MiB; split it`, 'countersign.cli.too_large', EXIT.usage);
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof RefusedError) throw error;
    throw new RefusedError(`cannot read \`${file}\``, 'countersign.cli.no_cases', EXIT.usage);
  }
}

/** Reads one policy file; throws a RefusedError that names every fault. */
export function readPolicyFile(file: string, layer: (typeof LAYERS)[number] = 'managed'): PolicyFile {
  const parsed = parsePolicyFile(readInput(file), path.basename(file) === file ? file : path.normalize(file), layer);
  if (parsed.ok) return parsed.value;
  throw new RefusedError(parsed.error.map(showProblem).join('\n'), 'countersign.cli.bad_policy');
}

export interface ReadSet {
  readonly set: PolicySet;
  /** The same files with a permission mode of the session laid over them. */
  readonly inMode: (mode: string) => PolicySet;
  readonly security: NonNullable<LayerSource['security']>;
  readonly approvalMode: LayerSource['approvalMode'];
}

/**
 * Lays policy files over each other. Each is `FILE` (the managed layer) or `LAYER=FILE`. Project and local files are not
 * trusted: only what tightens counts.
 */
export function readPolicySet(files: readonly string[]): ReadSet {
  const layers: Partial<Record<(typeof LAYERS)[number], LayerSource>> = {};
  let security: ReadSet['security'] = {};
  let approvalMode: LayerSource['approvalMode'];
  for (const given of files) {
    const at = given.indexOf('=');
    const name = LAYERS.find((layer) => layer === given.slice(0, at)) ?? 'managed';
    const file = name === given.slice(0, at) ? given.slice(at + 1) : given;
    if (layers[name] !== undefined)
      throw new RefusedError(`layer \`${name}\` is given twice`, 'countersign.cli.bad_policy', EXIT.usage);
    const { layer } = readPolicyFile(file, name);
    layers[name] = layer;
    if (name === 'project' || name === 'local') continue;
    security = { ...security, ...layer.defaults?.security, ...layer.security };
    approvalMode = layer.approvalMode ?? layer.defaults?.approvalMode ?? approvalMode;
  }
  const set = loadPolicySet(layers);
  if (set.ok) {
    const inMode = (mode: string): PolicySet => {
      const laid = loadPolicySet({ ...layers, session: { ...layers.session, mode: mode as PermissionMode } });
      return laid.ok ? laid.value : set.value;
    };
    return { set: set.value, inMode, security, approvalMode };
  }
  const faults = set.error.map(({ layer, rule, message }) => `${layer} ${rule}: ${message}`).join('\n');
  throw new RefusedError(faults, 'countersign.cli.bad_policy');
}
