import { realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import {
  bwrapArgv,
  encodeSeccomp,
  isInside,
  type Places,
  PROFILES,
  type Profile,
  type SandboxFacts,
  type SocketRule,
  sandboxEnvironment,
  seccompProgram,
} from '@countersign/sandbox';
import { refuseHostRoot } from './account.ts';
import { accountFiles } from './account-files.ts';
import { type Bubblewrap, BWRAP, probeBubblewrap } from './bubblewrap.ts';
import { findPlaces } from './find-places.ts';
import { worktreeFolders } from './git-folders.ts';
import { rememberProject } from './known-projects.ts';
import { realPathOf } from './look-up.ts';
import { findOuterMasks } from './outer-masks.ts';
import { type PathRules, parsePathRules } from './path-rules.ts';
import { privateCacheOf } from './private-cache.ts';
import { privatePaths } from './private-paths.ts';
import { type Protection, protectPaths } from './protect-paths.ts';
import { refuse } from './sandbox-error.ts';
import { openUnnamed, stateFiles } from './sandbox-files.ts';
import { scanProject } from './scan-project.ts';
import { socketMasks } from './socket-masks.ts';
import { visiblePaths } from './visible-paths.ts';

/** What a sandbox is asked for. */
export type SandboxRequest = {
  readonly project: string;
  /** Folder in the project; the project itself when absent. */
  readonly cwd?: string;
  readonly profile: string;
  /** Path rules whose matches cannot be read. */
  readonly masks: readonly string[];
  /** Path rules whose matches cannot be written. */
  readonly denyWrite?: readonly string[];
  /** Hosts that `networked` reaches. */
  readonly hosts?: readonly string[];
  /** Every private address is refused to `networked`, also one that is listed. */
  readonly blockPrivateNetwork?: boolean;
  /** Names of variables that are passed besides the short list. */
  readonly environmentNames?: readonly string[];
  /** Variables that those names may choose from, besides `environment`. */
  readonly passed?: Readonly<Record<string, string>>;
  /** Only a named minimum of the host can be read. */
  readonly hardened?: boolean;
  /** Further paths that can be read in hardened mode. */
  readonly visible?: readonly string[];
  /** The project is a folder of ours that goes with the run; nothing is remembered of it. */
  readonly scratch?: boolean;
  /** AF_UNIX sockets work inside, and every socket file of the host is masked. */
  readonly unixSockets?: 'mask';
  readonly privateTemp?: boolean;
  readonly privateCache?: boolean;
  /** Folder of the running code. */
  readonly installation: string;
  /** Variables of the account; only an allowlist reaches the command. */
  readonly environment: Readonly<Record<string, string | undefined>>;
};

/** A sandbox whose guards are held. `release` must be called, whatever happens. */
export type PreparedRun = {
  readonly profile: Profile;
  readonly places: Places;
  readonly program: string;
  /** Arguments before the command, for the descriptors 3 (filter) and 4 (status). */
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Private folder for what lives as long as a run. */
  readonly spool: string;
  /** Opens a fresh descriptor of the filter program in a file without a name. */
  readonly openFilter: () => number;
  /** Paths of the project that match a write rule with wildcards now. */
  readonly writeRules: PathRules;
  readonly writeMatches: readonly string[];
  /** Protected names, git folders and write-denied paths: read-only while the run lasts. */
  readonly protectedPaths: readonly string[];
  readonly release: () => Promise<void>;
};

export const SECCOMP_FD = 3;
export const STATUS_FD = 4;
const BRIDGE_SCRIPT = fileURLToPath(new URL('../egress/bridge.mjs', import.meta.url));

/** The profile by that name. Throws a SandboxRefusal for one that does not exist. */
export function supportedProfile(name: string, hardened = false): Profile {
  const profile = PROFILES.find((each) => each === name);
  if (!profile) {
    return refuse(
      ERROR_CODES.profileRefused,
      `profile \`${name}\` does not exist; use one of \`${PROFILES.join(' ')}\``,
    );
  }
  if (profile === 'full-access' && hardened) {
    refuse(ERROR_CODES.profileRefused, 'profile `full-access` is refused in hardened mode; use `workspace-write`');
  }
  return profile;
}

/** The folder in the project that a command starts in. Throws a SandboxRefusal. */
export async function workingFolder(cwd: string | undefined, project: string): Promise<string> {
  if (cwd === undefined) return project;
  const real = realPathOf(path.resolve(project, cwd));
  if (real && isInside(real, project)) return real;
  return refuse(ERROR_CODES.badRoot, `working folder \`${cwd}\` is not a folder of the project`);
}

function socketRule(profile: Profile, { unixSockets }: SandboxRequest): SocketRule {
  if (profile === 'full-access') return 'all';
  return unixSockets === 'mask' ? 'internet-and-unix' : 'internet';
}

async function hostFacts(request: SandboxRequest, places: Places, profile: Profile) {
  const { hardened, unixSockets, privateTemp = false, privateCache } = request;
  const isMasked = unixSockets === 'mask' && profile !== 'full-access';
  return {
    maskedSockets: isMasked ? await socketMasks(['/run', places.temp, places.cache, places.project]) : [],
    overlays: accountFiles(places.state, places.home),
    privateTemp: privateTemp && profile !== 'full-access',
    ...(hardened
      ? { visible: [...(await visiblePaths(await worktreeFolders(places.project))), ...(request.visible ?? [])] }
      : {}),
    ...(privateCache ? { privateCache: await privateCacheOf(places.state, places.project) } : {}),
    ...(profile === 'networked' ? { bridge: { node: realpathSync(process.execPath), script: BRIDGE_SCRIPT } } : {}),
  };
}

/** Looks for everything that rules name, and guards it. */
async function protection(request: SandboxRequest, places: Places, profile: Profile) {
  const { masks, denyWrite = [], environment, privateTemp, privateCache } = request;
  const read = parsePathRules(masks, places);
  const write = parsePathRules(denyWrite, places);
  const wild = [...read.wild, ...write.wild];
  const wanted = (full: string): boolean => wild.some((glob) => glob.matches(full));
  const scan = await scanProject(places.project, wild.length > 0 ? wanted : undefined);
  const outer = await findOuterMasks(masks, places);
  const own = privatePaths(environment, places.home);
  const replaced = [...(privateTemp ? [places.temp] : []), ...(privateCache ? [places.cache] : [])];
  const rules = { read, write };
  return {
    scan,
    write,
    held: await protectPaths({ places, profile, scan, rules, masks: [...outer, ...own], replaced }),
  };
}

function assemble(facts: SandboxFacts, { prefix }: Bubblewrap): { program: string; args: readonly string[] } {
  const [program, ...args] = [...prefix, BWRAP, ...bwrapArgv(facts)] as [string, ...string[]];
  return { program, args };
}

async function factsOf(
  request: SandboxRequest,
  { places, profile, held }: { places: Places; profile: Profile; held: Protection },
): Promise<Omit<SandboxFacts, 'canDisableUserns' | 'emptyFile' | 'seccompFd' | 'statusFd'>> {
  return {
    profile,
    places,
    cwd: await workingFolder(request.cwd, places.project),
    readOnly: held.readOnly,
    maskedFolders: held.masks.folders,
    maskedFiles: held.masks.files,
    ...(await hostFacts(request, places, profile)),
  };
}

/**
 * Looks at the host, guards protected names and assembles the sandbox. Throws a SandboxRefusal when there is none to be
 * had; nothing is left behind then.
 */
export async function prepareRun(request: SandboxRequest): Promise<PreparedRun> {
  refuseHostRoot();
  const profile = supportedProfile(request.profile, request.hardened);
  const bubblewrap = await probeBubblewrap();
  const places = await findPlaces({ ...request, profile });
  const { emptyFile, spool } = stateFiles(places.state);
  if (!request.scratch) rememberProject(places.state, places.project);
  const { scan, write, held } = await protection(request, places, profile);
  try {
    const { canDisableUserns, architecture } = bubblewrap;
    const found = await factsOf(request, { places, profile, held });
    const fixed = { canDisableUserns, emptyFile, seccompFd: SECCOMP_FD, statusFd: STATUS_FD };
    const filter = encodeSeccomp(seccompProgram(architecture, socketRule(profile, request)));
    const names = request.environmentNames;
    return {
      profile,
      places,
      ...assemble({ ...found, ...fixed }, bubblewrap),
      environment: sandboxEnvironment(
        { ...request.environment, ...request.passed },
        { places, profile, ...(names ? { names } : {}) },
      ),
      spool,
      openFilter: () => openUnnamed(spool, filter),
      writeRules: write,
      writeMatches: scan.matches,
      protectedPaths: held.readOnly,
      release: held.guards.release,
    };
  } catch (error) {
    await held.guards.release();
    throw error;
  }
}
