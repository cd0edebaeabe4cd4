import { err, ok, type Result } from '@countersign/kernel';
import { canonicalHost, compileHostPattern, type HostPattern, isPrivateHost } from '@countersign/patterns';

/** Addresses of a name, in the order to try them. Rejects when there are none. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

export type EgressRules = {
  /** Host patterns. One with a path says nothing about connections and is left out. */
  readonly hosts: readonly string[];
  /** Refuses private addresses also where one is listed. */
  readonly blockPrivateNetwork: boolean;
};

/** A target that may be connected to: at one of exactly these addresses, because another look-up may answer otherwise. */
export type Checked = { readonly host: string; readonly port: number; readonly addresses: readonly string[] };

const MAX_ADDRESSES = 8;
const isEvery = (source: string): boolean => source === '*' || source === '**';
const hasPath = (source: string): boolean => source.replace(/^https?:\/\//i, '').includes('/');
const isAddress = (host: string): boolean => host.startsWith('[') || /^\d+\.\d+\.\d+\.\d+$/.test(host);
const bare = (host: string): string => host.replace(/^\[|\]$/g, '');

/** Decides about each connection of a run. */
export class EgressPolicy {
  #patterns: readonly HostPattern[] = [];
  #blockPrivate = true;
  readonly #resolve: ResolveHost;

  constructor(rules: EgressRules, resolve: ResolveHost) {
    this.#resolve = resolve;
    this.use(rules);
  }

  /** Judges by these rules from now on. */
  use({ hosts, blockPrivateNetwork }: EgressRules): void {
    const patterns = hosts.filter((source) => !hasPath(source)).map(compileHostPattern);
    this.#patterns = patterns.filter((pattern) => pattern !== undefined);
    this.#blockPrivate = blockPrivateNetwork;
  }

  /**
   * Checks a host, in any spelling, and port. An address is judged as it stands: a private one needs an entry of its own.
   * A name is refused when any of its addresses is private.
   */
  async check(rawHost: string, port: number): Promise<Result<Checked, string>> {
    const host = canonicalHost(rawHost);
    if (host === undefined || !Number.isInteger(port) || port < 1 || port > 65_535) {
      return err('is not a host and port');
    }
    const matching = this.#patterns.filter((pattern) => pattern.matches({ host, port, path: '/' }, false));
    if (matching.length === 0) return err('is not among the allowed hosts');
    if (isAddress(host)) return this.#checkAddress(host, port, matching);
    if (isPrivateHost(host)) return err('is a private name');
    let addresses: readonly string[];
    try {
      addresses = (await this.#resolve(host)).slice(0, MAX_ADDRESSES);
    } catch {
      return err('cannot be resolved');
    }
    if (addresses.length === 0) return err('cannot be resolved');
    const hidden = addresses.find(isPrivateHost);
    return hidden === undefined ? ok({ host, port, addresses }) : err(`resolves to the private address ${hidden}`);
  }

  #checkAddress(host: string, port: number, matching: readonly HostPattern[]): Result<Checked, string> {
    const isListed = matching.some(({ source }) => !isEvery(source));
    if (isPrivateHost(host) && (this.#blockPrivate || !isListed)) return err('is a private address');
    return ok({ host, port, addresses: [bare(host)] });
  }
}
