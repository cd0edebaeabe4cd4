import { closeInheritedDescriptors } from '../sandbox/inherited-descriptors.ts';
import { refusalOf } from '../sandbox/sandbox-error.ts';
import { launcherWork } from './launcher-work.ts';
import type { LauncherReply, LauncherRequest } from './messages.ts';

closeInheritedDescriptors();

const [installation = ''] = process.argv.slice(2);
const work = launcherWork({ installation, environment: process.env });
const running = new Map<number, AbortController>();

function reply(message: LauncherReply): void {
  if (process.connected) process.send?.(message);
}

async function take(request: LauncherRequest): Promise<void> {
  const { id, kind } = request;
  if (kind === 'stop') {
    running.get(id)?.abort();
    return;
  }
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const handle = work[kind] as (input: unknown, signal: AbortSignal) => Promise<unknown>;
    reply({ id, answer: await handle(request.input, controller.signal) });
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
  for (const controller of running.values()) controller.abort();
});

/** Tells that requests are read from now on. */
reply({ id: 0, answer: 'ready' });
