import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { parsePolicyFile, showProblem } from '@countersign/policy';
import { ERROR_CODES } from '@countersign/protocol';
import type { PolicyConfig } from './policy-desk.ts';

const POLL_MS = 1_000;

/** A policy text as the managed layer. Throws a FaultError that names file, line and rule of every problem. */
export function readPolicyText(text: string, file: string): PolicyConfig {
  const parsed = parsePolicyFile(text, file, 'managed');
  if (!parsed.ok) {
    const problems = parsed.error.map(showProblem).join('\n');
    throw new FaultError(problems, { code: ERROR_CODES.policyRefused, publicMessage: problems });
  }
  const { ceilings = {}, security = {}, ...permissions } = parsed.value.layer;
  return { permissions, ceilings, security };
}

export const readPolicyFile = (file: string): PolicyConfig => readPolicyText(readFileSync(file, 'utf8'), file);

/** Tells of every change of the file's content; returns the end of it. */
export function watchPolicyFile(file: string, changed: () => void): () => void {
  watchFile(file, { interval: POLL_MS }, (now, before) => {
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) changed();
  });
  return () => unwatchFile(file);
}
