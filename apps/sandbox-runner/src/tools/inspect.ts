import { stat } from 'node:fs/promises';
import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type PathFact } from '@countersign/protocol';
import { createTwoFilesPatch } from 'diff';
import { refuseHostRoot } from '../sandbox/account.ts';
import { refusalOf, refuse, type SandboxError } from '../sandbox/sandbox-error.ts';
import { digestOfFile, MAX_DIGEST_BYTES } from './digest.ts';
import { type FileScope, openChecked, type ResolvedPath, refuseMasked, resolvePath } from './real-path.ts';

export type InspectInput = FileScope & {
  readonly path: string;
  /** What a write would put there; absent for a read. */
  readonly content?: string;
  /** Real paths only: neither content nor digests are read. */
  readonly pathsOnly?: boolean;
};

export type InspectResult = { readonly fact: PathFact; readonly diff: string };

const MAX_DIFF_INPUT_BYTES = 1024 * 1024;
const DIFF_TIMEOUT_MS = 2_000;
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

/** SECURITY: a line break in a file name would forge lines of the diff that the approver reads. */
const escaped = (name: string): string =>
  name.replace(/\p{Cc}|\p{Cf}/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);

async function currentText(resolved: ResolvedPath): Promise<string | undefined> {
  if (!resolved.exists) return '';
  await using handle = await openChecked(resolved);
  if ((await handle.stat()).size > MAX_DIFF_INPUT_BYTES) return undefined;
  const bytes = await handle.readFile();
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

async function diffOf(input: InspectInput, content: string): Promise<string> {
  const resolved = await resolvePath(input.path, input);
  const name = escaped(resolved.realPath);
  const current = await currentText(resolved);
  const whole = `--- ${name}\n+++ ${name}\nthe whole content is replaced by ${Buffer.byteLength(content)} bytes\n`;
  if (current === undefined) return whole;
  const before = resolved.exists ? name : '/dev/null';
  const options = { context: 3, timeout: DIFF_TIMEOUT_MS };
  return createTwoFilesPatch(before, name, current, content, undefined, undefined, options) ?? whole;
}

/** Facts of the path that a call names, and the unified diff that a write would make. Changes nothing. */
export async function inspect(input: InspectInput): Promise<Result<InspectResult, SandboxError>> {
  try {
    refuseHostRoot();
    const fact = await pathFact(input.path, input, input.pathsOnly);
    const wantsDiff = input.content !== undefined && !input.pathsOnly;
    return ok({ fact, diff: wantsDiff ? await diffOf(input, input.content ?? '') : '' });
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
