import { constants } from 'node:fs';
import { cp, type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { isInside } from '@countersign/sandbox';
import { openParent } from '../tools/project-folder.ts';
import type { PreparedRun } from './prepare-run.ts';
import { errnoOf, refusalOf } from './sandbox-error.ts';
import { scanProject } from './scan-project.ts';

/** Most paths that are named one by one; the others are counted. */
const MAX_NAMED = 200;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const PERMISSIONS = 0o7777;
const OWNER_MAY_CHANGE = 0o300;

/** Acts while the owner may change what lies in the folder, whatever the command made of its permissions. */
async function whileChangeable<T>(folder: FileHandle, act: () => Promise<T>): Promise<T> {
  const mode = (await folder.stat()).mode & PERMISSIONS;
  if ((mode & OWNER_MAY_CHANGE) === OWNER_MAY_CHANGE) return act();
  await folder.chmod(mode | OWNER_MAY_CHANGE);
  return act().finally(() => folder.chmod(mode));
}

/** Path of an entry of an open folder as the folder spells it; a name that is no text is found by what it reads as. */
async function entryOf(folder: FileHandle, name: string): Promise<Buffer> {
  const at = `/proc/self/fd/${folder.fd}/`;
  const all = name.includes('\uFFFD') ? await readdir(at, { encoding: 'buffer' }) : [];
  const spelled = all.find((each) => each.toString() === name) ?? Buffer.from(name);
  return Buffer.concat([Buffer.from(at), spelled]);
}

/** A folder moves only while it can be changed itself, because its parent is an entry of it. */
async function moveEntry(entry: Buffer, to: string): Promise<void> {
  const folder = await open(entry, FOLDER_FLAGS).catch(() => undefined);
  try {
    await (folder ? whileChangeable(folder, () => rename(entry, to)) : rename(entry, to));
  } catch (error) {
    if (errnoOf(error) !== 'EXDEV') throw error;
    await cp(entry.toString(), to, { recursive: true, verbatimSymlinks: true });
    await rm(entry, { recursive: true });
  } finally {
    await folder?.close();
  }
}

/** SECURITY: no step follows a link, so that a command that runs beside cannot have a file outside moved away. */
async function moveAway(project: string, full: string, to: string): Promise<boolean> {
  try {
    await using folder = await openParent(project, full, false);
    await whileChangeable(folder, async () => moveEntry(await entryOf(folder, path.basename(full)), to));
    return true;
  } catch {
    return false;
  }
}

/** Paths that rules with wildcards forbid and that were not there before, and why not all could be looked for. */
async function newMatches({ writeRules, writeMatches, places }: PreparedRun) {
  const before = new Set(writeMatches);
  const found: string[] = [];
  const look = (full: string): boolean => {
    if (!before.has(full) && writeRules.wild.some((glob) => glob.matches(full))) found.push(full);
    return false;
  };
  const fault = await scanProject(places.project, look).then(
    () => undefined,
    (error) => refusalOf(error).message,
  );
  return { found: found.filter((full) => !found.some((other) => other !== full && isInside(full, other))), fault };
}

/**
 * Moves what a command made against a write rule with wildcards out of the project, and names it. Literal rules need
 * none of this: their paths were read-only while the command ran. Never rejects: the command did run, and what could not
 * be moved or looked for is named too.
 */
export async function quarantineViolations(prepared: PreparedRun): Promise<readonly string[]> {
  if (prepared.writeRules.wild.length === 0) return [];
  const { project, state } = prepared.places;
  const { found, fault } = await newMatches(prepared);
  const folder = path.join(state, 'quarantine', crypto.randomUUID());
  if (found.length > 0) await mkdir(folder, { recursive: true, mode: 0o700 }).catch(() => undefined);
  const lines: string[] = [];
  for (const [index, full] of found.entries()) {
    const moved = await moveAway(project, full, path.join(folder, String(index)));
    lines.push(`write rule: \`${full}\` ${moved ? 'moved to quarantine' : 'is still there'}`);
  }
  const more = lines.length - MAX_NAMED;
  return [
    ...lines.slice(0, MAX_NAMED),
    ...(more > 0 ? [`write rule: ${more} more paths were judged in the same way`] : []),
    ...(fault === undefined ? [] : [`write rule: not everything could be looked through: ${fault}`]),
  ];
}
