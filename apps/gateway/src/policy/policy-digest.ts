import { createHash } from 'node:crypto';

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}

/** Hex SHA-256 of a policy, whatever the order of its keys: the record stores documents in an order of its own. */
export const policyDigest = (config: object): string =>
  createHash('sha256')
    .update(JSON.stringify(sorted(config)))
    .digest('hex');
