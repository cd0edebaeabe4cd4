import { err, ok, type Result } from '@countersign/kernel';
import type { Identity, PolicyFile } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import { type InspectError, inspectPolicyFiles } from '../broker/inspect.ts';
import type { Member } from '../record/members.ts';
import { FILE_LAYERS, type LayerFile, layerFileName, layerFilePath, readLayerFile } from './layer-file.ts';

/** An answer is used again for this long, so that calls that come together ask their host once. */
const FRESH_MS = 1_000;
/** When the host is silent its last answer still counts for this long; the validity of a signed answer. */
const USABLE_MS = 30_000;
const MAX_KNOWN = 2_000;

type Answer = Result<readonly LayerFile[], InspectError>;
type Known = { readonly atMs: number; readonly files: readonly LayerFile[] };

export type HostFilesOptions = {
  readonly connection: NatsConnection;
  readonly identity: Identity;
  readonly now: () => number;
};

/** A host names at most one file for each layer, where that layer lies. */
function isAskedFor(files: readonly PolicyFile[], project: string): boolean {
  const layers = files.map(({ layer }) => layer);
  if (new Set(layers).size !== layers.length) return false;
  return files.every(({ layer, path }) => {
    const known = FILE_LAYERS.find((one) => one === layer);
    if (known === undefined) return false;
    return known === 'user' ? path.endsWith(`/${layerFileName(known)}`) : path === layerFilePath(known, project);
  });
}

/** The permission files of hosts, as they are now. */
export class HostFiles {
  readonly #options: HostFilesOptions;
  readonly #known = new Map<string, Known>();
  readonly #asking = new Map<string, Promise<Answer>>();

  constructor(options: HostFilesOptions) {
    this.#options = options;
  }

  /**
   * The permission files of a project, not older than a second, or 30 s when the host does not answer. SECURITY: an older
   * version than the present one never allows more than an operator trusted, because trust names the content.
   */
  async of(host: Member, project: string): Promise<Answer> {
    const key = `${host.id}\0${project}`;
    const known = this.#known.get(key);
    const ageMs = this.#options.now() - (known?.atMs ?? Number.NEGATIVE_INFINITY);
    if (known && ageMs >= 0 && ageMs < FRESH_MS) return ok(known.files);
    const answer = await this.#ask(key, host, project);
    const silent = !answer.ok && answer.error.kind === 'unavailable';
    return silent && known && ageMs < USABLE_MS ? ok(known.files) : answer;
  }

  /** The newest answer however old; empty when there is none. */
  last(host: string, project: string): readonly LayerFile[] {
    return this.#known.get(`${host}\0${project}`)?.files ?? [];
  }

  /** Makes the next use ask again. */
  expire(host: string, project: string): void {
    this.#known.delete(`${host}\0${project}`);
  }

  #ask(key: string, host: Member, project: string): Promise<Answer> {
    const asking = this.#asking.get(key);
    if (asking) return asking;
    const started = this.#load(key, host, project).finally(() => this.#asking.delete(key));
    this.#asking.set(key, started);
    return started;
  }

  async #load(key: string, host: Member, project: string): Promise<Answer> {
    const atMs = this.#options.now();
    const answer = await inspectPolicyFiles({ ...this.#options, host }, project);
    if (!answer.ok) return answer;
    if (!isAskedFor(answer.value, project)) {
      const message = `host \`${host.id}\` answered with permission files of another place`;
      return err({ kind: 'refused', code: '', message });
    }
    const files = answer.value.map(readLayerFile);
    this.#known.delete(key);
    this.#known.set(key, { atMs, files });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    return ok(files);
  }
}
