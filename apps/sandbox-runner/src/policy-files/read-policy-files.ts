import { type BigIntStats, constants } from 'node:fs';
import { access, type FileHandle, lstat, open, realpath } from 'node:fs/promises';
import path from 'node:path';
import type { PolicyFile } from '@countersign/protocol';
import { accountUid } from '../sandbox/account.ts';
import { errnoOf } from '../sandbox/sandbox-error.ts';
import { inFolder, openParent } from '../tools/project-folder.ts';

/** Largest permission file, bytes; three of them fit into one message of the broker. */
export const MAX_POLICY_FILE_BYTES = 65_536;
const FOLDER = '.countersign';
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** Group and others may write. */
const FOREIGN_WRITE = 0o022;
const TRIES = 3;

const PROBLEMS: Readonly<Record<string, string>> = {
  ELOOP: 'is a link; put the file itself there',
  ENOTDIR: 'lies in a link or in something that is no folder',
  ENXIO: 'is no plain file',
  EACCES: 'may not be read by the account of commands',
  EPERM: 'may not be read by the account of commands',
};

/** What makes a permission file unusable; the text goes after its name. */
class Unusable extends Error {}

const sameVersion = (a: BigIntStats, b: BigIntStats): boolean =>
  a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs;

/** The whole content as one version of the file; undefined when it changed while it was read. */
async function readOnce(handle: FileHandle): Promise<Uint8Array | undefined> {
  const before = await handle.stat({ bigint: true });
  if (!before.isFile()) throw new Unusable('is no plain file');
  const buffer = Buffer.alloc(MAX_POLICY_FILE_BYTES + 1);
  let size = 0;
  while (before.size <= MAX_POLICY_FILE_BYTES && size < buffer.length) {
    const { bytesRead } = await handle.read({ buffer, offset: size, position: size });
    if (bytesRead === 0) break;
    size += bytesRead;
  }
  if (before.size > MAX_POLICY_FILE_BYTES || size > MAX_POLICY_FILE_BYTES)
    throw new Unusable(`is over ${MAX_POLICY_FILE_BYTES} bytes`);
  return sameVersion(before, await handle.stat({ bigint: true })) ? buffer.subarray(0, size) : undefined;
}

async function contentOf(root: string, file: string): Promise<Uint8Array> {
  const folder = await openParent(root, file, false);
  try {
    for (let tries = 0; tries < TRIES; tries += 1) {
      await using handle = await open(inFolder(folder, path.basename(file)), FILE_FLAGS);
      const content = await readOnce(handle);
      if (content) return content;
    }
    throw new Unusable('changes while it is read');
  } finally {
    await folder.close();
  }
}

/** SECURITY: true unless nothing from the file up to `/` belongs to this account, or can be written by it or by others. */
async function isAgentWritable(file: string): Promise<boolean> {
  for (let at = file; ; at = path.dirname(at)) {
    const { uid, mode } = await lstat(at);
    if (uid === accountUid() || (mode & FOREIGN_WRITE) !== 0) return true;
    const writable = await access(at, constants.W_OK).then(
      () => true,
      () => false,
    );
    if (writable) return true;
    if (at === path.dirname(at)) return false;
  }
}

async function readOne(layer: string, root: string): Promise<PolicyFile | undefined> {
  const file = path.join(root, FOLDER, `permissions.${layer}.json`);
  const unusable = (problem: string): PolicyFile => ({
    ...{ layer, path: file, problem },
    ...{ content: new Uint8Array(), agentWritable: true },
  });
  try {
    const content = await contentOf(root, file);
    return { layer, path: file, content, problem: '', agentWritable: await isAgentWritable(file) };
  } catch (error) {
    if (error instanceof Unusable) return unusable(error.message);
    const code = errnoOf(error) ?? '';
    return code === 'ENOENT' ? undefined : unusable(PROBLEMS[code] ?? `cannot be read (${code || 'it moved'})`);
  }
}

/**
 * The permission files of a project and of the home of this account, as this account. A file that is not there is left out;
 * one that is a link, no plain file, over 64 KiB, or changes while it is read has a `problem` and no content.
 * `project` is a real path. Changes nothing.
 */
export async function readPolicyFiles(project: string, home: string): Promise<readonly PolicyFile[]> {
  const realHome = await realpath(home).catch(() => home);
  const found = await Promise.all([readOne('user', realHome), readOne('project', project), readOne('local', project)]);
  return found.filter((file) => file !== undefined);
}
