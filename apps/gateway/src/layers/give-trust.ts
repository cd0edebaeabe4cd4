import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import type { SessionChain } from '../record/sessions.ts';
import { layerFilePath } from './layer-file.ts';
import type { ChangeProblem, LayerChange } from './recorded-layers.ts';
import { type Trust, trustId } from './trust.ts';

const problem = (code: ChangeProblem['code'], message: string): Result<never, ChangeProblem> => err({ code, message });

/** What the host says now; an older answer is not enough to trust on. */
async function filesNow(gateway: Gateway, hostId: string, project: string) {
  const host = gateway.hosts.present(hostId, gateway.now()) && (await gateway.members.find('host', hostId));
  if (!host) return problem(ERROR_CODES.notOffered, `host \`${hostId}\` is away; nothing is trusted unseen`);
  gateway.hostFiles.expire(hostId, project);
  const files = await gateway.hostFiles.of(host, project);
  return files.ok ? files : problem(ERROR_CODES.notOffered, files.error.message);
}

/**
 * Trusts exactly the content that a person was shown, of one file on one host. The host is asked again: a file that changed
 * meanwhile is refused with `stale_view`. Resolves to the trust; a later content needs a new one.
 */
export async function trustFile(
  gateway: Gateway,
  { session }: SessionChain,
  { layer, digest }: { readonly layer: 'project' | 'local'; readonly digest: string },
  by: string,
): Promise<Result<Trust, ChangeProblem>> {
  if (by === session.principal)
    return problem(ERROR_CODES.forbidden, 'nobody trusts a file for agents that act for himself; ask somebody else');
  const files = await filesNow(gateway, session.host, session.project);
  if (!files.ok) return files;
  const file = files.value.find((one) => one.layer === layer);
  if (file?.digest !== digest) return problem(ERROR_CODES.staleView, 'the file is not what you saw; look at it again');
  if (file.source === undefined) return problem(ERROR_CODES.notOffered, `the file ${file.problem}`);
  const full = gateway.layers.full();
  if (full) return err(full);
  const { host } = session;
  const path = layerFilePath(layer, session.project);
  const id = trustId(['file', host, layer, path]);
  const trust: Trust = { id, what: 'file', host, path, layer, digest, by, at_ms: gateway.now(), state: 'trusted' };
  const changed = await gateway.layers.change({
    type: 'trust.given',
    detail: { trust: id, what: 'file', host, path, layer, digest, by },
    trusts: [trust],
  });
  if (!changed.ok) return changed;
  gateway.broker.bus.tell('layers');
  return ok(trust);
}

/** An agent that would work in a folder of a host. */
export type FolderOf = { readonly agent: string; readonly host: string; readonly path: string };

/** The change that lets one agent work in one folder of one host, which must be the real path of a folder there now. */
export async function folderTrust(
  gateway: Gateway,
  { agent, host, path }: FolderOf,
  by: string,
): Promise<Result<LayerChange & { readonly trusts: readonly [Trust] }, ChangeProblem>> {
  const member = await gateway.members.find('agent', agent);
  if (!member?.hosts.includes(host))
    return problem(ERROR_CODES.notOffered, `agent \`${agent}\` is not enrolled for host \`${host}\``);
  if (by === member.principal)
    return problem(ERROR_CODES.forbidden, 'nobody trusts a folder for agents that act for himself; ask somebody else');
  const files = await filesNow(gateway, host, path);
  if (!files.ok) return files;
  const full = gateway.layers.full();
  if (full) return err(full);
  const id = trustId(['folder', host, agent, path]);
  const trust: Trust = { id, what: 'folder', host, path, agent, by, at_ms: gateway.now(), state: 'trusted' };
  return ok({ type: 'trust.given', detail: { trust: id, what: 'folder', host, path, agent, by }, trusts: [trust] });
}

/** Lets one agent work in one folder of one host, as `folderTrust` says. */
export async function trustFolder(gateway: Gateway, of: FolderOf, by: string): Promise<Result<Trust, ChangeProblem>> {
  const change = await folderTrust(gateway, of, by);
  if (!change.ok) return change;
  const changed = await gateway.layers.change(change.value);
  if (!changed.ok) return changed;
  gateway.broker.bus.tell('layers');
  return ok(change.value.trusts[0]);
}

/** Ends a trust; calls that have not started are the caller's to decide again. Ending it twice is no error. */
export async function revokeTrust(gateway: Gateway, id: string, by: string): Promise<Result<Trust, ChangeProblem>> {
  await gateway.layers.refresh();
  const found = gateway.layers.trusts().find((one) => one.id === id);
  if (!found) return problem(ERROR_CODES.notFound, 'no such trust');
  if (found.state !== 'trusted') return ok(found);
  const ended: Trust = { ...found, state: 'revoked', ended_by: by, ended_ms: gateway.now() };
  const { what, host, path } = found;
  const changed = await gateway.layers.change({
    type: 'trust.revoked',
    detail: { trust: id, what, host, path, by },
    trusts: [ended],
  });
  if (!changed.ok) return changed;
  gateway.broker.bus.tell('layers');
  return ok(ended);
}

/** An operator's word that what an earlier version of a file took away may go from a session. */
export async function releaseHeld(
  gateway: Gateway,
  { session, version }: SessionChain,
  digest: string,
  by: string,
): Promise<Result<undefined, ChangeProblem>> {
  const held = session.held_files ?? [];
  const kept = held.filter((one) => one.digest !== digest);
  if (kept.length === held.length) return problem(ERROR_CODES.notFound, 'the session holds no such file');
  if (by === session.principal) return problem(ERROR_CODES.forbidden, 'nobody widens a session that acts for himself');
  const refused = await gateway.sessions.change(
    { session, version },
    { ...session, held_files: kept },
    { type: 'session.changed', nowMs: gateway.now(), detail: { what: 'held file released', digest, by } },
  );
  return refused === undefined ? ok(undefined) : problem(ERROR_CODES.changedMeanwhile, refused);
}
