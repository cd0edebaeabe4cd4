import { stat } from 'node:fs/promises';
import { err, ok, type Result } from '@countersign/kernel';
import type { PathFact } from '@countersign/protocol';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuseHostRoot } from '../sandbox/account.ts';
import { refusalOf, refuse, type SandboxError } from '../sandbox/sandbox-error.ts';
import { previewChange } from './change-file.ts';
import type { ChangePlan } from './change-plan.ts';
import { digestOfFile, MAX_DIGEST_BYTES } from './digest.ts';
import { type FileScope, openChecked, type ResolvedPath, refuseMasked, resolvePath } from './real-path.ts';

export type InspectInput = FileScope & {
  readonly path: string;
  /** What the call would do to the file; absent for one that changes nothing. */
  readonly plan?: ChangePlan;
  readonly denyWrite: readonly string[];
  /** Real paths only: neither content nor digests are read. */
  readonly pathsOnly?: boolean;
};

export type InspectResult = { readonly fact: PathFact; readonly diff: string };

const NOTHING = new Uint8Array();

async function isFile({ realPath }: ResolvedPath): Promise<boolean> {
  return (await stat(realPath)).isFile();
}

async function digestAt(resolved: ResolvedPath): Promise<Uint8Array> {
  if (!(await isFile(resolved))) return NOTHING;
  await using handle = await openChecked(resolved);
  const digest = await digestOfFile(handle);
  return digest ?? refuse(ERROR_CODES.toolFailed, `\`${resolved.named}\` is larger than ${MAX_DIGEST_BYTES} bytes`);
}

/** The absolute path as policies see it, real path, existence and digest, as the account of this process. */
export async function pathFact(given: string, scope: FileScope, pathsOnly = false): Promise<PathFact> {
  const resolved = await resolvePath(given, scope);
  await refuseMasked(resolved, scope);
  const contentDigest = resolved.exists && !pathsOnly ? await digestAt(resolved) : NOTHING;
  return { path: resolved.named, realPath: resolved.realPath, exists: resolved.exists, contentDigest };
}

/** Facts of the path that a call names, and the unified diff that it would make. Changes nothing. */
export async function inspect(input: InspectInput): Promise<Result<InspectResult, SandboxError>> {
  try {
    refuseHostRoot();
    const { plan, pathsOnly } = input;
    const fact = await pathFact(input.path, input, pathsOnly);
    return ok({ fact, diff: plan && !pathsOnly ? await previewChange({ ...input, plan }) : '' });
  } catch (error) {
    return err(refusalOf(error, ERROR_CODES.toolFailed));
  }
}

/** Facts of several paths; one that may not be read refuses all. */
export async function inspectPaths(
  paths: readonly string[],
  scope: FileScope,
): Promise<Result<readonly PathFact[], SandboxError>> {
  try {
    refuseHostRoot();
    const facts: PathFact[] = [];
    for (const given of paths) facts.push({ ...(await pathFact(given, scope)), path: given });
    return ok(facts);
  } catch (error) {
    return err(refusalOf(error, ERROR_CODES.toolFailed));
  }
}
