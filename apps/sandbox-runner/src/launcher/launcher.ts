import { closeInheritedDescriptors } from '../sandbox/inherited-descriptors.ts';
import { refusalOf } from '../sandbox/sandbox-error.ts';
import type { OutputPiece } from '../work/host-tools.ts';
import { launcherWork } from './launcher-work.ts';
import type { LauncherReply, LauncherRequest, WorkLine } from './messages.ts';

closeInheritedDescriptors();

const [installation = ''] = process.argv.slice(2);
const work = launcherWork({ installation, environment: process.env });
type Running = { readonly stop: AbortController; readonly background: AbortController };
const running = new Map<number, Running>();

function reply(message: LauncherReply): void {
  if (process.connected) process.send?.(message);
}

async function take(request: LauncherRequest): Promise<void> {
  const { id } = request;
  if (!('input' in request)) {
    running.get(id)?.[request.kind].abort();
    return;
  }
  const controllers: Running = { stop: new AbortController(), background: new AbortController() };
  running.set(id, controllers);
  try {
    const handle = work[request.kind] as (input: unknown, signal: AbortSignal, line: WorkLine) => Promise<unknown>;
    const line = { output: (output: OutputPiece) => reply({ id, output }), background: controllers.background.signal };
    reply({ id, answer: await handle(request.input, controllers.stop.signal, line) });
  } catch (error) {
    reply({ id, fault: refusalOf(error).message });
  } finally {
    running.delete(id);
    if (!process.connected && running.size === 0) process.exit(0);
  }
}

/** A signal to the process group must not take running trees away before the runner stopped them. */
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('message', (request: LauncherRequest) => void take(request));
process.on('disconnect', () => {
  if (running.size === 0) process.exit(0);
  for (const { stop } of running.values()) stop.abort();
});

/** Tells that requests are read from now on. */
reply({ id: 0, answer: 'ready' });
