import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { err, ok, passEachStep, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { BrowserPool, sweepScratch } from '../browser/browser-pool.ts';
import { ChangeStore } from '../changes/change-store.ts';
import { recoverChanges } from '../changes/recover-changes.ts';
import { readPolicyFiles } from '../policy-files/read-policy-files.ts';
import { refuseHostRoot } from '../sandbox/account.ts';
import { appGuardRefusal } from '../sandbox/app-guard.ts';
import { type BashOutcome, type OutputStream, runBash, runGuarded } from '../sandbox/execute.ts';
import { statePath } from '../sandbox/find-places.ts';
import { realPathOf } from '../sandbox/look-up.ts';
import { PipePool, sweepPipes } from '../sandbox/output-pipe.ts';
import { sweepGuards } from '../sandbox/placeholders.ts';
import { supportedProfile } from '../sandbox/prepare-run.ts';
import { refusalOf } from '../sandbox/sandbox-error.ts';
import { selfTest } from '../sandbox/self-test.ts';
import { sweepIdle } from '../sandbox/sweep-idle.ts';
import { changeFile } from '../tools/change-file.ts';
import { inspect, inspectPaths } from '../tools/inspect.ts';
import { planOf } from '../tools/plan-of.ts';
import { programFacts } from '../tools/program-facts.ts';
import { readFileTool } from '../tools/read.ts';
import { scriptText } from '../tools/script-text.ts';
import { searchTool } from '../tools/search.ts';
import { checkGround, fixedMasks } from '../tools/tool-ground.ts';

import { webTool } from '../web/web-tool.ts';
import type { CommandEnding, ToolCall, ToolError, WebCall } from '../work/host-tools.ts';
import type { LauncherWork, WorkKind, WorkLine } from './messages.ts';
import { OutputFlow } from './output-flow.ts';

export type LauncherContext = {
  readonly installation: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
};

type Handlers = {
  readonly [Kind in WorkKind]: (
    input: LauncherWork[Kind][0],
    signal: AbortSignal,
    line: WorkLine,
  ) => Promise<LauncherWork[Kind][1]>;
};

const PLATFORM = 'bubblewrap';
const PIPES = 32;
const MAX_SEARCH_MS = 60_000;
/** Exit codes by which a shell tells of a program that a limit ended (128 + SIGXCPU, 128 + SIGXFSZ). */
const LIMIT_CODES: Readonly<Record<number, readonly string[]>> = {
  152: ['limit: processor time was used up'],
  153: ['limit: a file grew too large'],
};

function endingOf(outcome: BashOutcome, backend: string): CommandEnding {
  if (outcome.kind === 'sandbox_failed') {
    return { ending: 'sandbox_failed', error: { code: outcome.code, message: outcome.reason } };
  }
  const { stdout, stderr, truncatedBytes, violations, egress } = outcome;
  const reached = outcome.kind === 'exited' ? (LIMIT_CODES[outcome.code] ?? []) : [];
  const rest = { stdout, stderr, truncatedBytes, violations: [...violations, ...reached], egress, backend };
  if (outcome.kind === 'exited') return { ending: 'exited', exitCode: outcome.code, signal: '', ...rest };
  const killedBy = outcome.reason === 'signal' ? {} : { killedBy: outcome.reason };
  return { ending: 'killed', exitCode: 0, signal: outcome.signal, ...killedBy, ...rest };
}

/** SECURITY: an order was decided on a real path; a project that became a link since then is another place. */
async function isRealPath(project: string): Promise<boolean> {
  return (await realpath(project).catch(() => undefined)) === project;
}

type PathlessTool = 'bash' | 'background' | 'process' | WebCall['tool'];

const namesPath = (call: ToolCall): call is Exclude<ToolCall, { tool: PathlessTool }> =>
  !['bash', 'background', 'process', 'web_fetch', 'web_search', 'browser'].includes(call.tool);

const movedProject = (project: string) => ({
  code: ERROR_CODES.badRoot,
  message: `project \`${project}\` is not a folder or leads elsewhere; name its real path`,
});

async function policyFilesOf(project: string, home: string): Promise<LauncherWork['policyFiles'][1]> {
  return (await isRealPath(project)) ? ok(await readPolicyFiles(project, home)) : err(movedProject(project));
}

/** What reads the web, and the browsers that live as long as their sessions. */
function webWork(browsers: BrowserPool): Pick<Handlers, 'web' | 'endSession'> {
  return {
    web: ({ call, limits, search, browser }, signal) => {
      if (call.tool !== 'browser') return webTool({ call, limits, provider: search, signal });
      const { sessionId, timeoutMs, hosts = [], blockPrivateNetwork = false } = limits;
      return browsers.act({ args: call.args, sessionId, hosts, blockPrivateNetwork, timeoutMs, signal }, browser);
    },
    endSession: async ({ sessionId }) => {
      await browsers.end(sessionId);
      return undefined;
    },
  };
}

/** Tests the sandbox; one that holds also removes, where it is asked to, what ended processes left. */
async function testHost(
  context: LauncherContext,
  { home, sweep }: { readonly home: string; readonly sweep: boolean },
): Promise<LauncherWork['selfTest'][1]> {
  const report = await selfTest(context);
  const state = statePath(context.environment, home);
  if (report.ok && sweep) {
    sweepIdle(realPathOf(state) ?? state);
    sweepPipes(path.join(state, 'spool'));
    await sweepGuards(state);
    sweepScratch(home);
  }
  const appGuardOff = appGuardRefusal(context.environment, home);
  return { backends: report.ok ? [PLATFORM] : [], reason: report.reason, appGuardOff };
}

/** What the launcher can do, as the account of this process. */
export function launcherWork({ installation, environment }: LauncherContext): Handlers {
  const home = environment.HOME ?? '/';
  const hidden = fixedMasks(environment, home);
  const pipes = new PipePool(PIPES);
  const store = new ChangeStore(path.join(statePath(environment, home), 'changes'));
  const scope = (project: string, masks: readonly string[]) => ({ project, masks: [...masks, ...hidden], home });
  const onGround = async <T>(
    project: string,
    act: () => Promise<Result<T, ToolError>>,
  ): Promise<Result<T, ToolError>> => {
    try {
      refuseHostRoot();
      await checkGround(project, { installation, environment });
      return await act();
    } catch (error) {
      return err(refusalOf(error, ERROR_CODES.toolFailed));
    }
  };
  return {
    bash: async ({ args, limits, backgroundMs }, signal, line) => {
      const { project, denyRead: masks } = limits;
      if (!(await isRealPath(project))) return { ending: 'sandbox_failed', error: movedProject(project) };
      const cwd = args.cwd === undefined ? {} : { cwd: args.cwd };
      const flow = new OutputFlow(line.output);
      const background = { signal: line.background, timeoutMs: backgroundMs };
      const onOutput = (stream: OutputStream, chunk: Uint8Array) => flow.add(stream, chunk);
      const { command } = args;
      const run = limits.backend === 'app-guard' ? runGuarded : runBash;
      const outcome = await run({
        ...{ ...limits, ...cwd, masks, installation, environment, pipes, command },
        ...{ signal, background, onOutput },
      });
      flow.end();
      return endingOf(outcome, limits.backend ?? PLATFORM);
    },
    read: ({ args, limits: { project, denyRead } }) =>
      onGround(project, () => {
        const { path: file, first_line: firstLine = 1, max_lines: maxLines = Number.POSITIVE_INFINITY } = args;
        return readFileTool({ ...scope(project, denyRead), path: file, firstLine, maxLines });
      }),
    search: ({ args, limits: { project, denyRead, timeoutMs } }, signal) =>
      onGround(project, async () => {
        const where = { scope: scope(project, denyRead), installation, environment };
        return searchTool({ ...where, args, timeoutMs: Math.min(timeoutMs, MAX_SEARCH_MS), signal });
      }),
    ...webWork(new BrowserPool({ installation, environment })),
    change: ({ call, limits: { project, profile, denyRead, denyWrite, callId, expected } }, signal) =>
      onGround(project, async () => {
        if (!(await isRealPath(project))) return err(movedProject(project));
        if (supportedProfile(profile) === 'read-only') {
          return err({ code: ERROR_CODES.privatePath, message: 'profile `read-only` writes nothing' });
        }
        const { plan, rollsBack } = await planOf(call, store, scope(project, denyRead));
        return changeFile({
          ...scope(project, denyRead),
          ...{ callId, path: call.args.path, plan, denyWrite, signal, store, now: Date.now, atStep: passEachStep },
          ...(expected === undefined ? {} : { expected }),
          ...(rollsBack === undefined ? {} : { rollsBack }),
        });
      }),
    recover: () => recoverChanges(store),
    inspect: ({ call, where: { project, denyRead, denyWrite, pathsOnly, named } }) =>
      onGround(project, async () => {
        const at = scope(project, denyRead);
        if (!namesPath(call)) {
          const paths = named ? await programFacts(named, at, environment.PATH) : [];
          return ok({ paths, diff: '' });
        }
        const changes = call.tool !== 'read' && call.tool !== 'search' && !pathsOnly;
        const plan = changes ? { plan: (await planOf(call, store, at)).plan } : {};
        const found = await inspect({ ...at, ...plan, path: call.args.path ?? '.', denyWrite, pathsOnly });
        if (!found.ok) return found;
        if (call.tool !== 'read' || pathsOnly) return ok({ paths: [found.value.fact], diff: found.value.diff });
        // A script that a command names, for the person who decides; it travels where a diff would.
        const text = await scriptText(call.args.path, at);
        return text.ok ? ok({ paths: [found.value.fact], diff: text.value }) : text;
      }),
    facts: ({ paths, where: { project, denyRead } }) =>
      onGround(project, () => inspectPaths(paths, scope(project, denyRead))),
    policyFiles: ({ project }) => policyFilesOf(project, home),
    selfTest: ({ sweep }) => testHost({ installation, environment }, { home, sweep }),
  };
}
