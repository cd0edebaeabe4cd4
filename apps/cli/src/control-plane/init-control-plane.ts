import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { IdentityFile } from '@countersign/protocol';
import { makeCertificates } from '@countersign/service-kit/embedded';
import { passkeysOf } from '../embedded/config-files.ts';
import { installationPath } from '../embedded/data-folder.ts';
import { MAX_PAYLOAD_BYTES } from '../embedded/nats-config.ts';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
import { usage } from '../output.ts';
import { serviceUsers, writeBrokerAccounts } from './broker-accounts.ts';
import { type ControlPlaneKeys, gatewayNames, makeControlPlaneKeys } from './control-plane-keys.ts';

/** What the operator says about the control plane to be. */
export type ControlPlanePlan = {
  /** Folder of keys and configurations; made, or empty. */
  readonly out: string;
  /** Folder of what the services write. */
  readonly state: string;
  /** Address at which people reach the desk. */
  readonly publicUrl: string;
  /** Broker address for agents and hosts: `tls://HOST:PORT`, or `nats://` on this machine. */
  readonly brokerUrl: string;
  /** PEM files of the broker's certificate; absent only where it listens on this machine alone. */
  readonly brokerTls: { readonly cert: string; readonly key: string } | undefined;
  /** Owner connection of PostgreSQL. */
  readonly databaseUrl: string;
  /** Origin of the log's checkpoints; it never changes. */
  readonly logName: string;
  readonly gateways: number;
  /** Loopback ports; further gateways take those after `http`. */
  readonly ports: { readonly http: number; readonly audit: number; readonly guardian: number };
};

const LOOPBACK = '127.0.0.1';
const LOCAL_NAMES = [LOOPBACK, 'localhost', '[::1]'];

function checkPlan({ out, publicUrl, brokerUrl, brokerTls, databaseUrl }: ControlPlanePlan): void {
  if (existsSync(out) && readdirSync(out).length > 0) throw usage(`\`${out}\` is not empty; nothing was changed`);
  const [desk, broker] = [publicUrl, brokerUrl].map((text) => (URL.canParse(text) ? new URL(text) : undefined));
  const isLocal = (url: URL) => LOCAL_NAMES.includes(url.hostname);
  if (!desk || !(desk.protocol === 'https:' || (desk.protocol === 'http:' && isLocal(desk))))
    throw usage(`\`${publicUrl}\` is no https address; plain http is for this machine only`);
  if (!broker || !['tls:', 'nats:'].includes(broker.protocol) || broker.port === '')
    throw usage(`\`${brokerUrl}\` is not tls://HOST:PORT`);
  if (broker.protocol === 'nats:' && !isLocal(broker))
    throw usage(
      `\`${brokerUrl}\` would carry messages in the clear; use tls:// and \`--broker-cert\`, \`--broker-key\``,
    );
  if ((broker.protocol === 'tls:') !== (brokerTls !== undefined))
    throw usage('tls:// needs `--broker-cert` and `--broker-key`, and only tls:// takes them');
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) throw usage('the database file does not hold a postgres:// address');
}

type Folder = (...parts: string[]) => string;

/** Where each part of the control plane finds its own; a folder each, so that each can have an account of its own. */
function makeFolders({ out, gateways }: ControlPlanePlan): Folder {
  mkdirSync(out, { recursive: true });
  // Each service passes through to its folder and lists nothing.
  chmodSync(out, 0o711);
  const folder: Folder = (...parts) => path.join(out, ...parts);
  for (const name of ['root', 'audit', 'guardian', 'broker', 'operator', ...gatewayNames(gateways)])
    mkdirSync(folder(name), { mode: 0o700 });
  return folder;
}

function common(
  plan: ControlPlanePlan,
  at: Folder,
  keys: ControlPlaneKeys,
  own: string,
  identity: IdentityFile,
): object {
  writePrivateJson(at(own, `${identity.id}.json`), identity);
  // Each service has its copy: none needs to read another's folder.
  writePrivateFile(at(own, 'roster.bin'), keys.signedRoster);
  return {
    logLevel: 'info',
    natsUrl: plan.brokerUrl,
    identityFile: at(own, `${identity.id}.json`),
    rootKey: keys.root.publicKey,
    rosterFile: at(own, 'roster.bin'),
  };
}

/** gRPC certificates of `names`, each in the folder of its service with a copy of the authority's. Its key is kept nowhere. */
async function writeCertificates(at: Folder, names: readonly string[]): Promise<void> {
  const made = await makeCertificates(at('tls'), names);
  for (const [name, { certFile, keyFile, caFile }] of Object.entries(made)) {
    copyFileSync(caFile, at(name, 'grpc-ca.pem'));
    renameSync(certFile, at(name, 'grpc-cert.pem'));
    renameSync(keyFile, at(name, 'grpc-key.pem'));
  }
  rmSync(at('tls'), { recursive: true });
}

const tlsOf = (at: Folder, own: string): object => ({
  certFile: at(own, 'grpc-cert.pem'),
  keyFile: at(own, 'grpc-key.pem'),
  caFile: at(own, 'grpc-ca.pem'),
});

function writeAudit(plan: ControlPlanePlan, at: Folder, keys: ControlPlaneKeys): void {
  writePrivateJson(at('audit', 'log.json'), keys.log);
  writePrivateJson(at('audit', 'config.json'), {
    ...common(plan, at, keys, 'audit', keys.audit),
    databaseUrl: plan.databaseUrl,
    logIdentityFile: at('audit', 'log.json'),
    listen: { host: LOOPBACK, port: plan.ports.audit },
    tls: { ...tlsOf(at, 'audit'), clients: gatewayNames(plan.gateways) },
    logName: plan.logName,
    payloadKeyFolder: path.join(plan.state, 'audit/payload-keys'),
    payloadMasterKeyFile: at('audit', 'payload-master.key'),
    checkpointFile: path.join(plan.state, 'audit/log-checkpoint'),
  });
}

function writeGateways(plan: ControlPlanePlan, at: Folder, keys: ControlPlaneKeys, tokens: readonly object[]): void {
  keys.gateways.forEach((identity, index) => {
    const own = identity.id;
    writePrivateJson(at(own, 'control.json'), keys.control);
    writePrivateJson(at(own, 'config.json'), {
      ...common(plan, at, keys, own, identity),
      auditAddress: `${LOOPBACK}:${plan.ports.audit}`,
      guardianAddress: `${LOOPBACK}:${plan.ports.guardian}`,
      tls: tlsOf(at, own),
      // The reverse proxy that ends TLS is on this machine.
      http: { host: LOOPBACK, port: plan.ports.http + index, trustedProxies: [LOOPBACK] },
      controlIdentityFile: at(own, 'control.json'),
      deskDir: path.join(installationPath(), 'apps/desk/dist'),
      publicUrl: plan.publicUrl,
      channels: [],
      passkeys: passkeysOf(plan.publicUrl),
      tokens,
      policyFile: at('policy.yaml'),
    });
  });
}

/** Text of nats-server's configuration; the accounts are in a file of their own that changes with the members. */
function brokerConfig(plan: ControlPlanePlan): string {
  const { port } = new URL(plan.brokerUrl);
  const { brokerTls } = plan;
  const text = (value: string) => JSON.stringify(value);
  return `# nats-server of this control plane. The accounts are kept by \`countersign control-plane broker-accounts\`.
listen: ${text(`${brokerTls ? '0.0.0.0' : LOOPBACK}:${port}`)}
server_name: "countersign"
max_payload: ${MAX_PAYLOAD_BYTES}
pid_file: ${text(path.join(plan.state, 'broker/nats-server.pid'))}
jetstream { store_dir: ${text(path.join(plan.state, 'broker'))} }
${brokerTls ? `tls { cert_file: ${text(brokerTls.cert)}, key_file: ${text(brokerTls.key)}, timeout: 5 }\n` : ''}authorization { include "accounts.conf" }
`;
}

type Token = { readonly text: string; readonly sha256: string };

function makeToken(): Token {
  const text = `cst_${randomBytes(32).toString('base64url')}`;
  return { text, sha256: createHash('sha256').update(text).digest('hex') };
}

/** How a person or a helper of the control plane reaches the gateways. */
function writeConnection(plan: ControlPlanePlan, at: Folder, keys: ControlPlaneKeys, own: string, token: Token): void {
  writePrivateFile(at(own, 'token'), `${token.text}\n`);
  writePrivateFile(at(own, 'roster.bin'), keys.signedRoster);
  writePrivateJson(at(own, 'connection.json'), {
    gateway: own === 'operator' ? plan.publicUrl : `http://${LOOPBACK}:${plan.ports.http}`,
    tokenFile: 'token',
    rootKey: keys.root.publicKey,
    rosterFile: 'roster.bin',
    logName: plan.logName,
  });
}

/**
 * Makes keys and configurations of a control plane that is not the embedded one: a folder for each service, readable by its
 * account alone; nothing is started. Throws, and changes nothing, when the plan is wrong or `out` is not empty. On return the
 * organisation's root key lies in `root/`, to be taken off this machine.
 */
export async function initControlPlane(plan: ControlPlanePlan): Promise<{ readonly files: readonly string[] }> {
  checkPlan(plan);
  const at = makeFolders(plan);
  await writeCertificates(at, ['audit', 'guardian', ...gatewayNames(plan.gateways)]);
  const keys = await makeControlPlaneKeys(plan.gateways);
  const tokens = { operator: makeToken(), broker: makeToken() };
  writePrivateJson(at('root', 'root.json'), keys.root);
  writeAudit(plan, at, keys);
  copyFileSync(path.join(installationPath(), 'deploy/policies/default.yaml'), at('policy.yaml'));
  writeGateways(plan, at, keys, [
    { name: 'first-admin', role: 'admin', groups: [], sha256: tokens.operator.sha256 },
    // Reads the list of members, for the broker's accounts.
    { name: 'broker-accounts', role: 'auditor', groups: [], sha256: tokens.broker.sha256 },
  ]);
  writePrivateJson(at('guardian', 'config.json'), {
    logLevel: 'info',
    listen: { host: LOOPBACK, port: plan.ports.guardian },
    tls: { ...tlsOf(at, 'guardian'), clients: gatewayNames(plan.gateways) },
    stateFile: path.join(plan.state, 'guardian/state.json'),
    providers: [],
  });
  writePrivateFile(at('broker', 'nats.conf'), brokerConfig(plan));
  writeBrokerAccounts(at('broker', 'accounts.conf'), serviceUsers(keys.roster));
  for (const own of ['operator', 'broker'] as const) writeConnection(plan, at, keys, own, tokens[own]);
  return { files: readdirSync(plan.out, { recursive: true, withFileTypes: true }).flatMap(filePath) };
}

const filePath = (entry: { isFile: () => boolean; parentPath: string; name: string }): string[] =>
  entry.isFile() ? [path.join(entry.parentPath, entry.name)] : [];
