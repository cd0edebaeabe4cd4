import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import type { PathFact } from '@countersign/protocol';
import { SandboxRefusal } from '../sandbox/sandbox-error.ts';
import { pathFact } from './inspect.ts';
import type { FileScope } from './real-path.ts';

const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';
const MAX_FACTS = 64;

async function lookUp(program: string, searchPath: string): Promise<string | undefined> {
  for (const folder of searchPath.split(':')) {
    const full = path.join(folder, program);
    if (!path.isAbsolute(folder)) continue;
    const runs = await access(full, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (runs) return full;
  }
  return undefined;
}

/**
 * Facts of the programs and scripts that a command names, found as the sandbox finds them. Built-ins are no files; what may
 * not be read has no fact, because the command cannot read it either.
 */
export async function programFacts(
  named: { readonly programs: readonly string[]; readonly files: readonly string[] },
  scope: FileScope,
  searchPath: string = DEFAULT_PATH,
): Promise<readonly PathFact[]> {
  const found = await Promise.all(named.programs.map((program) => lookUp(program, searchPath)));
  const paths = [...new Set([...named.files, ...found.filter((one) => one !== undefined)])].slice(0, MAX_FACTS);
  const facts: PathFact[] = [];
  for (const one of paths) {
    try {
      facts.push({ ...(await pathFact(one, scope)), path: one });
    } catch (error) {
      if (!(error instanceof SandboxRefusal)) throw error;
    }
  }
  return facts;
}
