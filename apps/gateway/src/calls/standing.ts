import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { readView } from './view.ts';

type Standing = readonly { readonly kind: string; readonly key: string; readonly version: bigint }[];

/**
 * Documents on which it stands that a key may start something of an agent: nothing for what a person made in its name;
 * undefined when the key was revoked, and nothing that it signed may start.
 */
export function standingOf(gateway: Gateway, agent: string, key: string | undefined): Standing | undefined {
  if (key === undefined) return [];
  const found = gateway.members.standing(agent, key);
  return found && [found];
}

/** The same for a recorded call, by the key that its view names. */
export const standingOfCall = (gateway: Gateway, { agent, view }: CallRecord): Standing | undefined =>
  standingOf(gateway, agent, readView(view)?.key);
