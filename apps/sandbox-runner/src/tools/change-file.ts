import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { type FileHandle, link, open, readlink, realpath, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { type AtStep, err, makeId, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import type { ChangeStore } from '../changes/change-store.ts';
import type { FileChange, FileState } from '../changes/file-change.ts';
import { refuseHostRoot } from '../sandbox/account.ts';
import { errnoOf, refusalOf, refuse, type SandboxError, SandboxRefusal } from '../sandbox/sandbox-error.ts';
import type { ChangePlan } from './change-plan.ts';
import { digestOf } from './digest.ts';
import { MAX_KEPT_BYTES, type PresentFile, presentFile, stampAt } from './present-file.ts';
import { inFolder, openParent, resolveChange } from './project-folder.ts';
import type { FileScope } from './real-path.ts';
import { unifiedDiff } from './unified-diff.ts';

/** Moments of a change, in order. A process may end at each of them and the file is whole, old or new. */
export type ChangeStep = 'change.announced' | 'change.written' | 'change.applied' | 'change.confirmed';

export type ChangeInput = FileScope & {
  readonly callId: string;
  readonly path: string;
  readonly plan: ChangePlan;
  /** Path rules whose matches are not written. */
  readonly denyWrite: readonly string[];
  /** SHA-256 that the file must have now; `absent` when there must be none. */
  readonly expected?: Uint8Array | 'absent';
  /** Aborted before the last step, nothing changes. */
  readonly signal?: AbortSignal;
  readonly store: ChangeStore;
  /** Change that this one takes back. */
  readonly rollsBack?: string;
  readonly now: () => number;
  readonly atStep: AtStep<ChangeStep>;
};

export type ChangeAnswer = { readonly change: FileChange; readonly diff: string };

const NEW_FILE_MODE = 0o644;

const changed = (named: string): never =>
  refuse(ERROR_CODES.changedSinceRequest, `\`${named}\` changed after the decision; submit the call again`);

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function checkExpected(present: PresentFile | undefined, { expected, path: named }: ChangeInput): void {
  if (expected === undefined) return;
  if (expected === 'absent' ? present : !present || Buffer.compare(present.digest, expected) !== 0) changed(named);
}

type Target = { readonly folder: FileHandle; readonly name: string; readonly realPath: string };
type Step = {
  readonly input: ChangeInput;
  readonly target: Target;
  readonly present: PresentFile | undefined;
  readonly next: Uint8Array | 'absent';
};

const stateOf = (file: { digest: Uint8Array; size: number; mode: number }): FileState => ({
  digest: hex(file.digest),
  size: file.size,
  mode: file.mode,
});

function changeOf({ input, target, present, next }: Step, project: string): FileChange {
  const nowMs = input.now();
  const mode = present?.mode ?? input.plan.newFileMode ?? NEW_FILE_MODE;
  return {
    id: makeId('chg', nowMs, randomBytes),
    callId: input.callId,
    project,
    path: target.realPath,
    before: present ? stateOf(present) : null,
    after: next === 'absent' ? null : stateOf({ digest: digestOf(next), size: next.length, mode }),
    atMs: nowMs,
    ...(input.rollsBack === undefined ? {} : { rollsBack: input.rollsBack }),
  };
}

/** Keeps both contents where they fit. The one before is what an undo needs; the one after is what it is compared with. */
async function keepContents({ input, present, next }: Step): Promise<void> {
  if (present?.bytes) await input.store.blobs.put(present.bytes);
  if (next !== 'absent' && next.length <= MAX_KEPT_BYTES) await input.store.blobs.put(next);
}

/** The name still holds what was looked at. */
async function checkUnmoved({ input, target, present }: Step): Promise<void> {
  if (input.signal?.aborted) refuse(ERROR_CODES.toolFailed, 'write was stopped; the file did not change');
  if ((await stampAt(inFolder(target.folder, target.name))) !== present?.stamp) changed(input.path);
}

async function putInPlace(step: Step, temporary: string): Promise<void> {
  const { target, present, input } = step;
  const place = inFolder(target.folder, target.name);
  await checkUnmoved(step);
  if (present) return rename(temporary, place);
  await link(temporary, place).catch((error: unknown) => {
    if (errnoOf(error) === 'EEXIST') changed(input.path);
    throw error;
  });
  await rm(temporary);
}

async function apply(step: Step, temporary: string): Promise<void> {
  const { target, next, present, input } = step;
  if (next === 'absent') {
    await checkUnmoved(step);
    await rm(inFolder(target.folder, target.name));
  } else {
    await using handle = await open(temporary, 'wx', present ? 0o600 : NEW_FILE_MODE);
    await handle.writeFile(next);
    const mode = present?.mode ?? input.plan.newFileMode;
    if (mode !== undefined) await handle.chmod(mode);
    await handle.sync();
    input.atStep('change.written');
    await putInPlace(step, temporary);
  }
  await target.folder.sync();
}

async function perform(step: Step, change: FileChange): Promise<void> {
  const { input, target } = step;
  const name = `.countersign-${change.id}.tmp`;
  const temporary = inFolder(target.folder, name);
  await keepContents(step);
  await input.store.announce(change, path.join(path.dirname(target.realPath), name));
  input.atStep('change.announced');
  try {
    await apply(step, temporary);
  } catch (error) {
    await rm(temporary, { force: true });
    // After any other fault the next start looks at the file and tells whether it was changed.
    if (error instanceof SandboxRefusal) await input.store.forget(change.id);
    throw error;
  }
  input.atStep('change.applied');
  await input.store.confirm(change);
  input.atStep('change.confirmed');
}

const sideOf = (present: PresentFile | undefined) => (present ? (present.bytes ?? { size: present.size }) : 'absent');

async function changeInProject(input: ChangeInput): Promise<ChangeAnswer> {
  const project = await realpath(input.project);
  const { realPath } = await resolveChange(input.path, { ...input, project });
  await using folder = await openParent(project, realPath, input.plan.creates);
  const real = await readlink(`/proc/self/fd/${folder.fd}`);
  if (real !== path.dirname(realPath)) changed(input.path);
  const target = { folder, name: path.basename(realPath), realPath };
  const present = await presentFile(inFolder(folder, target.name), input.path);
  checkExpected(present, input);
  const next = input.plan.next(present, input.path);
  const step = { input, target, present, next };
  const change = changeOf(step, project);
  await perform(step, change);
  return { change, diff: unifiedDiff(realPath, sideOf(present), next) };
}

/**
 * Changes one file of the project as the account of this process, whole or not at all. An existing file keeps its
 * permissions, a link that leads to it stays a link. Refused: what leads out of the project, protected names, masked and
 * write-denied paths, hard links, a file that is not as expected.
 */
export async function changeFile(input: ChangeInput): Promise<Result<ChangeAnswer, SandboxError>> {
  try {
    refuseHostRoot();
    return ok(await changeInProject(input));
  } catch (error) {
    const { code, message } = refusalOf(error, ERROR_CODES.toolFailed);
    return err({ code, message: errnoOf(error) ? `\`${input.path}\` cannot be changed (${errnoOf(error)})` : message });
  }
}

/** The diff that a change would make. Changes nothing. Throws a SandboxRefusal when the change does not fit. */
export async function previewChange(
  input: Pick<ChangeInput, 'project' | 'home' | 'masks' | 'denyWrite' | 'path' | 'plan'>,
): Promise<string> {
  const project = await realpath(input.project);
  const { realPath } = await resolveChange(input.path, { ...input, project });
  const folder = await openParent(project, realPath, false).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  try {
    const present = folder && (await presentFile(inFolder(folder, path.basename(realPath)), input.path));
    return unifiedDiff(realPath, sideOf(present), input.plan.next(present, input.path));
  } finally {
    await folder?.close();
  }
}
