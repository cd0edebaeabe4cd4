import { createHash } from 'node:crypto';
import { type LayerSource, parsePolicyFile, showProblem } from '@countersign/policy';
import type { PolicyFile } from '@countersign/protocol';

export const FILE_LAYERS = ['user', 'project', 'local'] as const;
export type FileLayer = (typeof FILE_LAYERS)[number];

/** A permission file as its host sent it. */
export type LayerFile = {
  readonly layer: FileLayer;
  readonly path: string;
  /** Hex SHA-256 of the content; empty when the host could not read it. */
  readonly digest: string;
  /** What it says; undefined when it is refused. */
  readonly source: LayerSource | undefined;
  /** Why it is refused; empty when it is not. */
  readonly problem: string;
  /** Commands of agents could have written it. */
  readonly agentWritable: boolean;
};

const MAX_BYTES = 65_536;
const MAX_PARSED = 500;
const MAX_SHOWN = 500;

/** Parts of a policy that only the organisation states. */
const MANAGED_ONLY = ['ceilings', 'forbiddenHosts', 'lockedRules', 'defaults', 'queues', 'harmlessNames'] as const;

/** Where the file of a layer lies; the home of the user is the host's to name. */
export const layerFileName = (layer: FileLayer): string => `.countersign/permissions.${layer}.json`;
export const layerFilePath = (layer: FileLayer, folder: string): string =>
  `${folder === '/' ? '' : folder}/${layerFileName(layer)}`;

type Parsed = Pick<LayerFile, 'source' | 'problem'>;
const parsed = new Map<string, Parsed>();

function textOf(content: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content);
  } catch {
    return undefined;
  }
}

function parse(layer: FileLayer, content: Uint8Array): Parsed {
  const refused = (problem: string) => ({ source: undefined, problem: problem.slice(0, MAX_SHOWN) });
  if (content.length > MAX_BYTES) return refused(`is over ${MAX_BYTES} bytes`);
  const text = textOf(content);
  if (text === undefined) return refused('is not UTF-8');
  const file = parsePolicyFile(text, `permissions.${layer}.json`, layer);
  if (!file.ok) return refused(file.error.map(showProblem).join('; '));
  const above = MANAGED_ONLY.find((key) => file.value.layer[key] !== undefined);
  return above === undefined
    ? { source: file.value.layer, problem: '' }
    : refused(`\`${above}\` belongs to the policy of the organisation`);
}

/** Reads a file as its host sent it. Never throws: whatever is wrong with it is its `problem`. */
export function readLayerFile({ layer, path, content, problem, agentWritable }: PolicyFile): LayerFile {
  const digest = problem === '' ? createHash('sha256').update(content).digest('hex') : '';
  const facts = { layer: layer as FileLayer, path, digest, agentWritable };
  if (problem !== '') return { ...facts, source: undefined, problem: problem.slice(0, MAX_SHOWN) };
  const key = `${layer} ${digest}`;
  const found = parsed.get(key) ?? parse(facts.layer, content);
  if (parsed.size >= MAX_PARSED) parsed.clear();
  parsed.set(key, found);
  return { ...facts, ...found };
}
