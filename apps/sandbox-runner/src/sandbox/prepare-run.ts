import { openSync, unlinkSync } from 'node:fs';
import { lstat, mkdir, open, realpath, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import {
  bwrapArgv,
  encodeSeccomp,
  isInside,
  type Places,
  PROTECTED_NAMES,
  type Profile,
  type SandboxFacts,
  sandboxEnvironment,
  seccompProgram,
} from '@countersign/sandbox';
import { refuseHostRoot } from './account.ts';
import { accountFiles } from './account-files.ts';
import { type Bubblewrap, BWRAP, probeBubblewrap } from './bubblewrap.ts';
import { findPlaces } from './find-places.ts';
import { gitPaths } from './git-folders.ts';
import { findOuterMasks } from './outer-masks.ts';
import { covers, findMasks, findWriteDenied, type PathRules, parsePathRules } from './path-rules.ts';
import { type Guard, type HeldGuards, holdGuards } from './placeholders.ts';
import { refuse } from './sandbox-error.ts';
import { type ProjectScan, scanProject } from './scan-project.ts';

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
  /** Folder of the running code. */
  readonly installation: string;
  /** Variables of the account; only an allowlist reaches the command. */
  readonly environment: Readonly<Record<string, string | undefined>>;
};

/** A sandbox whose guards are held. `release` must be called, whatever happens. */
export type PreparedRun = {
  readonly places: Places;
  readonly program: string;
  /** Arguments before the command, for the descriptors 3 (filter) and 4 (status). */
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Private folder for what lives as long as a run. */
  readonly spool: string;
  /** Opens a fresh descriptor of the filter program in a file without a name. */
  readonly openFilter: () => Promise<number>;
  /** Paths of the project that match a write rule with wildcards now. */
  readonly writeRules: PathRules;
  readonly writeMatches: readonly string[];
  readonly release: () => Promise<void>;
};

export const SECCOMP_FD = 3;
export const STATUS_FD = 4;
const MAX_REPOSITORIES = 100;

/** The profile by that name. Throws a SandboxRefusal for one that is not built. */
export function supportedProfile(profile: string): Profile {
  if (profile === 'workspace-write' || profile === 'read-only') return profile;
  return refuse(
    ERROR_CODES.unimplemented,
    `profile \`${profile}\` is not there yet; use \`workspace-write\` or \`read-only\``,
  );
}

async function workingFolder(cwd: string | undefined, project: string): Promise<string> {
  if (cwd === undefined) return project;
  const real = await realpath(path.resolve(project, cwd)).catch(() => undefined);
  if (real && isInside(real, project)) return real;
  return refuse(ERROR_CODES.badRoot, `working folder \`${cwd}\` is not a folder of the project`);
}

async function stateFiles(state: string): Promise<{ emptyFile: string; spool: string }> {
  const emptyFile = path.join(state, 'empty');
  const spool = path.join(state, 'spool');
  await mkdir(spool, { recursive: true, mode: 0o700 });
  const found = await lstat(emptyFile).catch(() => undefined);
  if (!found) await writeFile(emptyFile, '', { mode: 0o444, flag: 'a' });
  return { emptyFile, spool };
}

async function openUnnamed(spool: string, bytes: Uint8Array): Promise<number> {
  const name = path.join(spool, `filter-${crypto.randomUUID()}`);
  await using handle = await open(name, 'wx', 0o600);
  await handle.writeFile(bytes);
  try {
    return openSync(name, 'r');
  } finally {
    unlinkSync(name);
  }
}

type Protection = { readonly guards: HeldGuards; readonly readOnly: readonly string[]; readonly masks: Masks };
type Masks = Awaited<ReturnType<typeof findMasks>>;

function mergeGuards(guards: readonly Guard[]): Guard[] {
  const byFolder = Map.groupBy(guards, ({ folder }) => folder);
  return [...byFolder].map(([folder, all]) => ({ folder, names: [...new Set(all.flatMap(({ names }) => names))] }));
}

async function protect(
  places: Places,
  profile: Profile,
  scan: ProjectScan,
  rules: { readonly read: PathRules; readonly write: PathRules; readonly outer: readonly string[] },
): Promise<Protection> {
  const { project } = places;
  if (scan.repositories.length > MAX_REPOSITORIES) {
    refuse(ERROR_CODES.badRoot, `project holds more than ${MAX_REPOSITORIES} repositories; use a smaller one`);
  }
  const repositories = profile === 'workspace-write' ? [project, ...scan.repositories] : [];
  const denied = await findWriteDenied(rules.write.literal);
  const writable = [places.temp, places.cache, ...(profile === 'workspace-write' ? [project] : [])];
  const wanted = denied.guards.filter(({ folder }) => writable.some((root) => isInside(folder, root)));
  const named = repositories.map((folder) => ({ folder, names: PROTECTED_NAMES }));
  const guards = await holdGuards(places.state, mergeGuards([...named, ...wanted]));
  try {
    const git = (await Promise.all(repositories.map(gitPaths))).flat();
    const written = scan.matches.filter((found) => covers(rules.write, found));
    const read = scan.matches.filter((found) => covers(rules.read, found));
    const masks = await findMasks([...rules.read.literal, ...read, ...rules.outer]);
    return { guards, masks, readOnly: [...guards.paths, ...git, ...denied.existing, ...written] };
  } catch (error) {
    await guards.release();
    throw error;
  }
}

function assemble(facts: SandboxFacts, bubblewrap: Bubblewrap): { program: string; args: readonly string[] } {
  const [program, ...args] = [...bubblewrap.prefix, BWRAP, ...bwrapArgv(facts)] as [string, ...string[]];
  return { program, args };
}

/**
 * Looks at the host, guards protected names and assembles the sandbox. Throws a SandboxRefusal when there is none to be
 * had; nothing is left behind then.
 */
export async function prepareRun(request: SandboxRequest): Promise<PreparedRun> {
  refuseHostRoot();
  const profile = supportedProfile(request.profile);
  const bubblewrap = await probeBubblewrap();
  const places = await findPlaces({ ...request, profile });
  const cwd = await workingFolder(request.cwd, places.project);
  const read = parsePathRules(request.masks, places);
  const write = parsePathRules(request.denyWrite ?? [], places);
  const wild = [...read.wild, ...write.wild];
  const scan = await scanProject(places.project, (full) => wild.some((glob) => glob.matches(full)));
  const outer = await findOuterMasks(request.masks, places);
  const { emptyFile, spool } = await stateFiles(places.state);
  const { guards, readOnly, masks } = await protect(places, profile, scan, { read, write, outer });
  const facts: SandboxFacts = {
    profile,
    places,
    cwd,
    readOnly,
    maskedFolders: masks.folders,
    maskedFiles: masks.files,
    emptyFile,
    overlays: await accountFiles(places.state, places.home),
    canDisableUserns: bubblewrap.canDisableUserns,
    seccompFd: SECCOMP_FD,
    statusFd: STATUS_FD,
  };
  const filter = encodeSeccomp(seccompProgram(bubblewrap.architecture));
  return {
    places,
    ...assemble(facts, bubblewrap),
    environment: sandboxEnvironment(request.environment, places),
    spool,
    openFilter: () => openUnnamed(spool, filter),
    writeRules: write,
    writeMatches: scan.matches,
    release: guards.release,
  };
}
