import { existsSync, readFileSync } from 'node:fs';
import type { Roster } from '@countersign/protocol';
import { brokerAccounts, type NatsUser } from '../embedded/nats-config.ts';
import { writePrivateFile } from '../embedded/private-file.ts';

/** The services that speak to the broker, as the organisation's root named them. */
export const serviceUsers = ({ members }: Roster): NatsUser[] =>
  members.flatMap(({ role, id, signKey }): NatsUser[] =>
    role === 'gateway' || role === 'audit' ? [{ role, id, publicKey: signKey }] : [],
  );

/** Writes the accounts of `users`, whole or not at all. Returns whether the file changed. */
export function writeBrokerAccounts(file: string, users: readonly NatsUser[]): boolean {
  const text = `users: ${JSON.stringify(brokerAccounts(users), undefined, 2)}\n`;
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return false;
  writePrivateFile(file, text);
  return true;
}

/** Makes nats-server read its accounts again; members that stay keep their connections. False when it does not run. */
export function reloadBroker(pidFile: string): boolean {
  const pid = existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0;
  if (!Number.isInteger(pid) || pid <= 1) return false;
  try {
    return process.kill(pid, 'SIGHUP');
  } catch {
    return false;
  }
}
