import { lookup } from 'node:dns/promises';

/** Addresses of a name as this host resolves it. */
export async function resolveHost(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true, order: 'verbatim' })).map(({ address }) => address);
}
