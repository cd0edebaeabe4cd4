import { createHash } from 'node:crypto';
import { FaultError, ok, type Result } from '@countersign/kernel';
import type { LayerSource, Layers, Trusted } from '@countersign/policy';
import { ERROR_CODES } from '@countersign/protocol';
import type { InspectError } from '../broker/inspect.ts';
import type { Gateway } from '../context.ts';
import type { Member } from '../record/members.ts';
import type { Session, SessionChain } from '../record/sessions.ts';
import { heldTightening, holdFiles, holdsTooMany } from './held-files.ts';
import type { LayerFile } from './layer-file.ts';
import { layerOf, type StoredRule } from './stored-rule.ts';
import { strictestApproval, strictestMode, tighteningOf, untrusted, withHeld } from './tightening.ts';
import { boundRules } from './within-ancestors.ts';

const MAX_TRIES = 4;

/** A permission file as a decision names it. */
export type NamedFile = {
  readonly layer: string;
  readonly digest: string;
  /** `trusted` counts whole, `tightens` only takes away, `held` was seen earlier in the session, `refused` makes every call ask. */
  readonly state: 'trusted' | 'tightens' | 'held' | 'refused';
};

/** Everything beside the policy of the organisation that a session is decided on. */
export type Ground = {
  /** The session as it is now, bounded by its ancestors and by the modes that files state. */
  readonly chain: SessionChain;
  readonly files: readonly LayerFile[];
  readonly held: readonly { readonly layer: string; readonly digest: string; readonly tight: LayerSource }[];
  readonly trusted: Trusted;
  readonly rules: readonly StoredRule[];
  readonly named: readonly NamedFile[];
  /** The state of trusts and rules that it stands on. */
  readonly basis: { readonly kind: string; readonly key: string; readonly version: bigint };
};

/** What the engine is given beside the managed layer. */
export type Laid = {
  readonly layers: Layers;
  readonly trusted: Trusted;
  /** Why every call asks; empty when there is no such reason. */
  readonly ask: string;
  /** Widenings that no layer of the engine was even shown. */
  readonly ignored: readonly string[];
  /** Names what was laid; empty when it is nothing. */
  readonly key: string;
};

/** SECURITY: a user's file that commands could have written takes away only, like a file of the workspace. */
const countsWhole = (file: LayerFile, trusted: Trusted): boolean =>
  file.layer === 'user' ? !file.agentWritable : trusted.includes(file.layer);

function fileLayer(ground: Pick<Ground, 'files' | 'held' | 'trusted'>, layer: LayerFile['layer']): LayerSource {
  const file = ground.files.find((one) => one.layer === layer);
  const held = ground.held.filter((one) => one.layer === layer).map(({ tight }) => tight);
  if (file?.source === undefined) return withHeld({}, held);
  if (countsWhole(file, ground.trusted)) return withHeld(file.source, held);
  return withHeld(layer === 'user' ? tighteningOf(file.source) : untrusted(file.source), held);
}

function problemsOf({ files, chain }: Pick<Ground, 'files' | 'chain'>): string {
  const refused = files
    .filter(({ source }) => source === undefined)
    .map(({ path, problem }) => `permission file ${path} ${problem}`);
  const full = holdsTooMany(chain.session) ? ['permission files changed too often in this session'] : [];
  return [...refused, ...full].join('; ').slice(0, 1_000);
}

/** Lays the files and saved rules of a session; `rules` may be fewer than it has. */
export function lay(ground: Ground, rules: readonly StoredRule[] = ground.rules): Laid {
  const { files, held, trusted } = ground;
  const ask = problemsOf(ground);
  if (files.length === 0 && held.length === 0 && rules.length === 0)
    return { layers: {}, trusted: [], ask, ignored: [], key: '' };
  const user = files.find(({ layer }) => layer === 'user');
  const doubted = user?.source !== undefined && !countsWhole(user, trusted);
  const names = [
    ...ground.named.map(({ layer, digest, state }) => [layer, digest, state]),
    // A child's rules say less when an ancestor's end.
    ...rules.map(({ id, fragment }) => [id, fragment]),
  ];
  return {
    layers: {
      user: fileLayer(ground, 'user'),
      project: fileLayer(ground, 'project'),
      local: fileLayer(ground, 'local'),
      session: layerOf(rules),
    },
    trusted,
    ask,
    ignored: doubted ? [`user file \`${user.path}\` can be written by commands of agents: it only tightens`] : [],
    key: createHash('sha256').update(JSON.stringify(names)).digest('hex'),
  };
}

/** SECURITY: a mode in a file only takes away; more is a permission update. */
function capped(session: Session, sources: readonly LayerSource[]): Session {
  const modes = [session.permission_mode, ...sources.map(({ mode }) => mode)];
  const approvals = [session.approval_mode, ...sources.map(({ approvalMode }) => approvalMode)];
  return {
    ...session,
    permission_mode: strictestMode(modes) ?? session.permission_mode,
    approval_mode: strictestApproval(approvals) ?? session.approval_mode,
  };
}

/** Ends the trust of files whose content is not what was trusted; true when one was ended. */
async function lapse(gateway: Gateway, session: Session, files: readonly LayerFile[]): Promise<boolean> {
  const { host, project } = session;
  let ended = false;
  for (const layer of ['project', 'local'] as const) {
    const trust = gateway.layers.fileTrust(host, layer, `${project}/.countersign/permissions.${layer}.json`);
    if (!trust || files.find((file) => file.layer === layer)?.digest === trust.digest) continue;
    const { id, path, digest } = trust;
    const end = { state: 'lapsed', ended_by: 'gateway', ended_ms: gateway.now() } as const;
    await gateway.layers.change({
      type: 'trust.lapsed',
      detail: { trust: id, host, path, digest, by: 'gateway', reason: 'the file changed' },
      trusts: [{ ...trust, ...end }],
    });
    gateway.broker.bus.tell('layers');
    ended = true;
  }
  return ended;
}

const trustedLayers = (gateway: Gateway, { host }: Session, files: readonly LayerFile[]): Trusted =>
  files.flatMap(({ layer, path, digest }) =>
    layer !== 'user' && gateway.layers.fileTrust(host, layer, path)?.digest === digest ? [layer] : [],
  );

/** Sessions whose held files bind this one: itself, and its ancestors in the same place. */
const heldOf = ({ session, ancestors }: SessionChain) =>
  [session, ...ancestors.map((one) => one.session)]
    .filter(({ host, project }) => host === session.host && project === session.project)
    .flatMap(({ held_files: held = [] }) => held);

function namesOf(files: readonly LayerFile[], trusted: Trusted, held: Ground['held']): NamedFile[] {
  const present = files.map((file): NamedFile => {
    const { layer, digest, source } = file;
    if (source === undefined) return { layer, digest, state: 'refused' };
    return { layer, digest, state: countsWhole(file, trusted) ? 'trusted' : 'tightens' };
  });
  const seen = held
    .filter(({ layer, digest }) => !present.some((one) => one.layer === layer && one.digest === digest))
    .map(({ layer, digest }): NamedFile => ({ layer, digest, state: 'held' }));
  return [...present, ...seen];
}

/** The ground of a session on these files, without a change of the record. */
export async function groundOn(gateway: Gateway, chain: SessionChain, files: readonly LayerFile[]): Promise<Ground> {
  const basis = gateway.layers.basis();
  const rules = boundRules(
    gateway.layers.rulesOf(chain.session),
    chain.ancestors.map(({ session }) => gateway.layers.rulesOf(session)),
    gateway.policy.current.allowedHosts,
  );
  const trusted = trustedLayers(gateway, chain.session, files);
  const held: Ground['held'][number][] = [];
  for (const one of heldOf(chain)) held.push({ ...one, tight: await heldTightening(gateway, one) });
  const sources = [...files.flatMap(({ source }) => (source ? [source] : [])), ...held.map(({ tight }) => tight)];
  return {
    chain: { ...chain, bounded: capped(chain.bounded, sources) },
    ...{ files, held, trusted, rules, basis },
    named: namesOf(files, trusted, held),
  };
}

/**
 * What a session is decided on now: its host's files are read, what they take away is held from now on, and the trust of a
 * file that changed has ended. An error when the host does not answer; nothing is decided without its files.
 */
export async function groundOf(
  gateway: Gateway,
  chain: SessionChain,
  host: Member,
): Promise<Result<Ground, InspectError>> {
  let present = chain;
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const { session } = present;
    const files = await gateway.hostFiles.of(host, session.project);
    if (!files.ok) return files;
    if (await lapse(gateway, session, files.value)) continue;
    const loose = files.value.filter(({ layer, agentWritable }) => layer !== 'user' || agentWritable);
    if (!(await holdFiles(gateway, present, loose))) return ok(await groundOn(gateway, present, files.value));
    const again = await gateway.sessions.chain(session.id);
    if (!again) break;
    present = again;
  }
  throw new FaultError('session or trust changed while a call was judged', {
    code: ERROR_CODES.changedMeanwhile,
    retryable: true,
  });
}

/** The ground of a session on what its host said last: for showing, and where the host is away. */
export const lastGround = (gateway: Gateway, chain: SessionChain): Promise<Ground> =>
  groundOn(gateway, chain, gateway.hostFiles.last(chain.session.host, chain.session.project));
