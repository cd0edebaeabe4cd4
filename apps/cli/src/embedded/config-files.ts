import path from 'node:path';
import type { CertificateFiles } from '@countersign/service-kit/embedded';
import { type DataFolder, installationPath } from './data-folder.ts';
import type { Keys } from './keys.ts';
import { writePrivateJson } from './private-file.ts';
import { readSettings, reviewSecurity } from './settings.ts';

/** Loopback ports of one run. */
export type Ports = {
  readonly postgres: number;
  readonly nats: number;
  readonly audit: number;
  readonly guardian: number;
  readonly http: number;
  readonly http2: number;
};

/** Members of the private authority of one run: who speaks gRPC, and who asks for health. */
export const TLS_MEMBERS = ['audit', 'guardian', 'gateway', 'probe'] as const;
export type Certificates = Readonly<Record<(typeof TLS_MEMBERS)[number], CertificateFiles>>;

/** What a run has chosen or made anew. */
export type RunFacts = {
  readonly ports: Ports;
  readonly databaseUrl: string;
  readonly certificates: Certificates;
};

export type ServiceName = 'audit' | 'guardian' | 'gateway' | 'gateway-2' | 'runner';

const LOOPBACK = '127.0.0.1';

/** The embedded default: mode dev, people decide, platform sandbox, nothing beyond. */
const EMBEDDED_POLICY = {
  permissions: {
    mode: 'dev',
    sandboxBackend: 'auto',
    allowBackendFallback: false,
    allowedHosts: [],
    allowRules: [],
    askRules: [],
    denyRules: [{ toolName: 'bash', pattern: 'git push *', reason: 'publishing is done by people' }],
  },
  ceilings: { mode: 'networked', fullAccess: false, eternal: false, backendFallback: false, appGuard: false },
  security: {
    permission_mode: 'dev',
    auto_allow_bash_if_sandboxed: true,
    dangerous_command_guard: false,
    block_private_network: false,
    hardened_mode: false,
  },
} as const;

const MAX_RUNNING = 4;

/** Name of the log in its checkpoints. */
export const logNameOf = (data: DataFolder): string => `countersign/${path.basename(data.root)}`;

/** Passkeys belong to the public address: its name, and it alone as origin. */
export function passkeysOf(publicUrl: string): { rpId: string; origins: string[] } {
  const { hostname, origin } = new URL(publicUrl);
  return { rpId: hostname, origins: [origin] };
}

/** Without a public address passkeys belong to this machine's name for itself. */
const passkeysAt = (publicUrl: string | undefined, { http, http2 }: Ports): { rpId: string; origins: string[] } =>
  publicUrl === undefined
    ? { rpId: 'localhost', origins: [http, http2].map((port) => `http://localhost:${port}`) }
    : passkeysOf(publicUrl);

function serviceConfigs(data: DataFolder, keys: Keys, run: RunFacts): Record<ServiceName, object> {
  const { ports, databaseUrl, certificates } = run;
  const connected = (member: 'audit' | 'gateway' | 'gateway-2' | 'host-local') => ({
    logLevel: 'info',
    natsUrl: `nats://${LOOPBACK}:${ports.nats}`,
    identityFile: keys.identityPath(member),
    rootKey: keys.identities.root.publicKey,
    rosterFile: keys.rosterFile,
  });
  const installation = installationPath();
  const settings = readSettings(data);
  const { publicUrl, channels = [], guardian = {}, oidc } = settings;
  const security = { ...EMBEDDED_POLICY.security, ...reviewSecurity(settings) };
  const gateway = (member: 'gateway' | 'gateway-2', port: number) => ({
    ...connected(member),
    auditAddress: `${LOOPBACK}:${ports.audit}`,
    guardianAddress: `${LOOPBACK}:${ports.guardian}`,
    tls: certificates.gateway,
    http: { host: LOOPBACK, port },
    controlIdentityFile: keys.identityPath('control'),
    deskDir: path.join(installation, 'apps/desk/dist'),
    ...(publicUrl === undefined ? {} : { publicUrl }),
    channels,
    // People reach a gateway without a public address by this machine's name for itself, as their passkeys do.
    ...(oidc === undefined ? {} : { oidc: { ...oidc, publicUrl: publicUrl ?? `http://localhost:${port}` } }),
    passkeys: passkeysAt(publicUrl, ports),
    tokens: keys.tokenHashes,
    policy: { ...EMBEDDED_POLICY, security },
  });
  return {
    audit: {
      ...connected('audit'),
      databaseUrl,
      logIdentityFile: keys.identityPath('log'),
      listen: { host: LOOPBACK, port: ports.audit },
      tls: certificates.audit,
      logName: logNameOf(data),
      payloadKeyFolder: path.join(data.private, 'keys', 'payload'),
      payloadMasterKeyFile: path.join(data.private, 'payload-master.key'),
      checkpointFile: path.join(data.private, 'log-checkpoint'),
    },
    guardian: {
      ...guardian,
      stateFile: path.join(data.private, 'guardian-state.json'),
      logLevel: 'info',
      listen: { host: LOOPBACK, port: ports.guardian },
      tls: certificates.guardian,
    },
    gateway: gateway('gateway', ports.http),
    'gateway-2': gateway('gateway-2', ports.http2),
    runner: {
      ...connected('host-local'),
      host: 'local',
      journalFile: path.join(data.private, 'journal.jsonl'),
      runAs: data.runAccount ? { ...data.runAccount, home: data.home } : null,
      masks: [data.private, data.database],
      installation,
      pinsFile: path.join(data.root, 'pins.json'),
      maxRunning: MAX_RUNNING,
    },
  };
}

/** Writes one configuration file, mode 0600, for each service and returns their paths. */
export function writeServiceConfigs(data: DataFolder, keys: Keys, run: RunFacts): Record<ServiceName, string> {
  const entries = Object.entries(serviceConfigs(data, keys, run)).map(([name, config]) => {
    const file = path.join(data.config, `${name}.json`);
    writePrivateJson(file, config);
    return [name, file] as const;
  });
  return Object.fromEntries(entries) as Record<ServiceName, string>;
}
