import {
  createIdentity,
  type IdentityFile,
  openIdentity,
  type Roster,
  type RosterMember,
  signRoster,
} from '@countersign/protocol';

/** A service of the control plane that holds a key of its own. */
type KeyHolder = { readonly role: RosterMember['role']; readonly id: string };

export type ControlPlaneKeys = {
  readonly root: IdentityFile;
  readonly control: IdentityFile;
  readonly audit: IdentityFile;
  readonly log: IdentityFile;
  readonly gateways: readonly IdentityFile[];
  /** The services' public keys, version 1. */
  readonly roster: Roster;
  /** The same, signed by the root. */
  readonly signedRoster: Uint8Array;
};

/** Names of the gateways: `gateway`, `gateway-2` and so on. */
export const gatewayNames = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => (at === 0 ? 'gateway' : `gateway-${at + 1}`));

/** Makes an organisation root, a key for each service, and the roster that names them. */
export async function makeControlPlaneKeys(gateways: number): Promise<ControlPlaneKeys> {
  const make = ({ role, id }: KeyHolder | { role: 'root'; id: string }) => createIdentity(role, id);
  const root = await make({ role: 'root', id: 'root' });
  const [control, audit, log] = [
    await make({ role: 'control', id: 'control' }),
    await make({ role: 'audit', id: 'audit' }),
    await make({ role: 'log', id: 'log' }),
  ];
  const served: IdentityFile[] = [];
  for (const id of gatewayNames(gateways)) served.push(await make({ role: 'gateway', id }));
  const member = (role: RosterMember['role'], { id, publicKey, sealPublicKey }: IdentityFile): RosterMember => ({
    role,
    id,
    signKey: publicKey,
    sealKey: sealPublicKey,
  });
  const members = [
    ...served.map((file) => member('gateway', file)),
    member('control', control),
    member('audit', audit),
    member('log', log),
  ];
  const roster = { version: 1, members };
  const signedRoster = signRoster(await openIdentity(root), roster);
  return { root, control, audit, log, gateways: served, roster, signedRoster };
}
