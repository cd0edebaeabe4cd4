import { access } from 'node:fs/promises';
import path from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isInside } from '@countersign/sandbox';
import { refuseHostRoot } from '../sandbox/account.ts';
import { type BashOutcome, runBash } from '../sandbox/execute.ts';
import { covers, findMasks, parsePathRules } from '../sandbox/path-rules.ts';
import { refusalOf, refuse, type SandboxError } from '../sandbox/sandbox-error.ts';
import { scanProject } from '../sandbox/scan-project.ts';
import { type FileScope, refuseMasked, resolvePath } from './real-path.ts';

const RIPGREP = '/usr/bin/rg';
const DEFAULT_RESULTS = 200;
const MAX_CHARS = 30_000;
const MAX_NAMED = 10;
const MAX_ERROR_CHARS = 500;
const OPTIONS = [
  ...['--no-config', '--color=never', '--no-heading', '--with-filename', '--line-number', '--sort=path'],
  ...['--hidden', '--glob=!.git', '--no-messages', '--max-columns=500', '--max-columns-preview', '--max-filesize=16M'],
];

export type SearchArguments = {
  /** Regular expression of ripgrep. */
  readonly pattern: string;
  readonly path?: string | undefined;
  readonly glob?: string | undefined;
  readonly ignore_case?: boolean | undefined;
  readonly max_results?: number | undefined;
};

export type SearchInput = {
  readonly args: SearchArguments;
  readonly scope: FileScope;
  readonly installation: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
};

/** Lines `path:line:text`, and what the reader must know of them. */
export type SearchAnswer = { readonly content: string; readonly note: string };

/** Collects whole lines up to both bounds. */
class MatchLines {
  private readonly decoder = new StringDecoder('utf8');
  private readonly limit: number;
  private readonly lines: string[] = [];
  private rest = '';
  private chars = 0;
  isFull = false;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Returns true when no more is taken. */
  add(chunk: Uint8Array): boolean {
    const parts = (this.rest + this.decoder.write(Buffer.from(chunk))).split('\n');
    this.rest = parts.pop() ?? '';
    for (const line of parts) this.push(line);
    return this.isFull;
  }

  text(): string {
    return this.lines.map((line) => `${line.replace(/^\.\//, '')}\n`).join('');
  }

  private push(line: string): void {
    if (this.lines.length >= this.limit || this.chars + line.length > MAX_CHARS) {
      this.isFull = true;
      return;
    }
    this.lines.push(line);
    this.chars += line.length + 1;
  }
}

/** Files below `root` that path rules hide from this search. */
async function leftOut(root: string, scope: FileScope): Promise<readonly string[]> {
  const rules = parsePathRules(scope.masks, scope);
  const literal = await findMasks(rules.literal);
  const hidden = [...literal.folders, ...literal.files].filter((masked) => isInside(masked, root));
  if (rules.wild.length === 0 || !isInside(root, scope.project)) return hidden;
  const scan = await scanProject(root, (full) => covers({ literal: [], wild: rules.wild }, full));
  return [...new Set([...hidden, ...scan.matches])].sort();
}

function noteOf(lines: MatchLines, hidden: readonly string[], project: string): string {
  const named = hidden.slice(0, MAX_NAMED).map((full) => `\`${path.relative(project, full) || full}\``);
  const more = hidden.length > named.length ? ` and ${hidden.length - named.length} more` : '';
  return [
    ...(lines.isFull ? ['there are more matches; narrow the search'] : []),
    ...(hidden.length > 0 ? [`left out, because reading is denied: ${named.join(', ')}${more}`] : []),
  ].join('; ');
}

function failure(outcome: BashOutcome, signal: AbortSignal): SandboxError | undefined {
  if (outcome.kind === 'sandbox_failed') return { code: outcome.code, message: outcome.reason };
  if (signal.aborted) return { code: ERROR_CODES.toolFailed, message: 'search was stopped' };
  if (outcome.kind === 'killed') return { code: ERROR_CODES.toolFailed, message: 'search took too long; narrow it' };
  if (outcome.code < 2) return undefined;
  const said = Buffer.from(outcome.stderr).toString('utf8').trim().slice(-MAX_ERROR_CHARS);
  return said === '' ? undefined : { code: ERROR_CODES.invalidArguments, message: said };
}

async function search(input: SearchInput): Promise<SearchAnswer> {
  const { args, scope, signal } = input;
  await access(RIPGREP).catch(() =>
    refuse(ERROR_CODES.toolFailed, `\`${RIPGREP}\` is not installed on this host; install ripgrep`),
  );
  const resolved = await resolvePath(args.path ?? '.', scope);
  await refuseMasked(resolved, scope);
  if (!resolved.exists) refuse(ERROR_CODES.toolFailed, `\`${resolved.named}\` does not exist`);
  const hidden = await leftOut(resolved.realPath, scope);
  const inProject = isInside(resolved.realPath, scope.project);
  const where = inProject ? `./${path.relative(scope.project, resolved.realPath)}` : resolved.realPath;
  const lines = new MatchLines(args.max_results ?? DEFAULT_RESULTS);
  const enough = new AbortController();
  const outcome = await runBash({
    project: scope.project,
    profile: 'read-only',
    masks: scope.masks,
    installation: input.installation,
    environment: input.environment,
    command: [
      ...[RIPGREP, ...OPTIONS, ...(args.ignore_case ? ['--ignore-case'] : [])],
      ...(args.glob === undefined ? [] : [`--glob=${args.glob}`]),
      ...[`--regexp=${args.pattern}`, '--', where],
    ],
    timeoutMs: input.timeoutMs,
    signal: AbortSignal.any([signal, enough.signal]),
    onOutput: (stream, chunk) => {
      if (stream === 'stdout' && lines.add(chunk)) enough.abort();
    },
  });
  const failed = lines.isFull ? undefined : failure(outcome, signal);
  if (failed) refuse(failed.code, failed.message);
  return { content: lines.text(), note: noteOf(lines, hidden, scope.project) };
}

/**
 * Searches file contents with ripgrep, in a read-only sandbox in which denied files are empty. Ignore files are
 * respected, hidden files searched, `.git` left out. Every denied path below the searched folder is named in the note.
 */
export async function searchTool(input: SearchInput): Promise<Result<SearchAnswer, SandboxError>> {
  try {
    refuseHostRoot();
    return ok(await search(input));
  } catch (error) {
    return err(refusalOf(error, ERROR_CODES.toolFailed));
  }
}
