import { realpath } from 'node:fs/promises';
import { err, ok } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { type BashOutcome, runBash } from '../sandbox/execute.ts';
import { statePath } from '../sandbox/find-places.ts';
import { sweepGuards } from '../sandbox/placeholders.ts';
import { selfTest } from '../sandbox/self-test.ts';
import { inspect, inspectPaths } from '../tools/inspect.ts';
import { readFileTool } from '../tools/read.ts';
import { writeFileTool } from '../tools/write.ts';
import type { CommandEnding } from '../work/host-tools.ts';
import type { LauncherWork, WorkKind } from './messages.ts';

export type LauncherContext = {
  readonly installation: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
};

type Handlers = {
  readonly [Kind in WorkKind]: (input: LauncherWork[Kind][0], signal: AbortSignal) => Promise<LauncherWork[Kind][1]>;
};

const BACKEND = 'bwrap';

function endingOf(outcome: BashOutcome): CommandEnding {
  if (outcome.kind === 'sandbox_failed') {
    return { ending: 'sandbox_failed', error: { code: outcome.code, message: outcome.reason } };
  }
  const { stdout, stderr, truncatedBytes, violations } = outcome;
  const rest = { stdout, stderr, truncatedBytes, violations, backend: BACKEND };
  if (outcome.kind === 'exited') return { ending: 'exited', exitCode: outcome.code, signal: '', ...rest };
  const killedBy = outcome.reason === 'signal' ? {} : { killedBy: outcome.reason };
  return { ending: 'killed', exitCode: 0, signal: outcome.signal, ...killedBy, ...rest };
}

/** SECURITY: an order was decided on a real path; a project that became a link since then is another place. */
async function isRealPath(project: string): Promise<boolean> {
  return (await realpath(project).catch(() => undefined)) === project;
}

const movedProject = (project: string) => ({
  code: ERROR_CODES.badRoot,
  message: `project \`${project}\` is not a folder or leads elsewhere; name its real path`,
});

/** What the launcher can do, as the account of this process. */
export function launcherWork({ installation, environment }: LauncherContext): Handlers {
  const home = environment.HOME ?? '/';
  const scope = (project: string, masks: readonly string[]) => ({ project, masks, home });
  return {
    bash: async ({ args, limits }, signal) => {
      const { project, profile, denyRead: masks, denyWrite, timeoutMs } = limits;
      if (!(await isRealPath(project))) return { ending: 'sandbox_failed', error: movedProject(project) };
      const where = { project, profile, masks, denyWrite, installation, environment };
      const cwd = args.cwd === undefined ? {} : { cwd: args.cwd };
      return endingOf(await runBash({ ...where, ...cwd, command: args.command, timeoutMs, signal }));
    },
    read: async ({ args, limits }) => readFileTool({ ...scope(limits.project, limits.denyRead), path: args.path }),
    write: async ({ args, limits }) => {
      const { project, profile, denyRead, denyWrite } = limits;
      if (!(await isRealPath(project))) return err(movedProject(project));
      if (profile === 'read-only') {
        return err({ code: ERROR_CODES.privatePath, message: 'profile `read-only` writes nothing' });
      }
      return writeFileTool({ ...scope(project, denyRead), ...args, denyWrite });
    },
    inspect: async ({ call, where }) => {
      if (call.tool === 'bash') return ok({ paths: [], diff: '' });
      const content = call.tool === 'write' ? { content: call.args.content } : {};
      const { pathsOnly } = where;
      const found = await inspect({
        ...scope(where.project, where.denyRead),
        path: call.args.path,
        pathsOnly,
        ...content,
      });
      return found.ok ? ok({ paths: [found.value.fact], diff: found.value.diff }) : found;
    },
    facts: async ({ paths, where }) => inspectPaths(paths, scope(where.project, where.denyRead)),
    selfTest: async ({ sweep }) => {
      const report = await selfTest({ installation, environment });
      if (report.ok && sweep) await sweepGuards(statePath(environment, home));
      return { backends: report.ok ? [BACKEND] : [], reason: report.reason };
    },
  };
}
