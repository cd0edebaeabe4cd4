import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Agent, CallOutcome, CallRequest, SessionRequest, SubmittedCall } from '@countersign/agent';
import type { CallEvent } from '@countersign/protocol';
import type { Decision, GatewayClient } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
import { installationPath } from './data-folder.ts';
import { enrolSamples } from './enrol.ts';
import { type Installation, startInstallation } from './installation.ts';
import { sampleAgent } from './samples.ts';

/** A real installation with two gateways, for tests. */
export type FleetUnderTest = {
  readonly installation: Installation;
  readonly root: string;
  readonly agent: Agent;
  readonly stop: () => Promise<void>;
};

/** `settings`: text of the installation's settings. */
export async function startFleet(name: string, settings?: string): Promise<FleetUnderTest> {
  const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), `countersign-${name}-`));
  // The run account must be able to enter the folders above its project.
  chmodSync(root, 0o711);
  if (settings !== undefined) {
    mkdirSync(path.join(root, 'private'), { mode: 0o700 });
    writeFileSync(path.join(root, 'private/settings.yaml'), settings, { mode: 0o600 });
  }
  const installation = await startInstallation(root, () => undefined, { gateways: 2 });
  await enrolSamples(installation);
  const agent = await sampleAgent(installation);
  return {
    installation,
    root,
    agent,
    stop: async () => {
      await agent.close();
      await installation.stop();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** Resolves with the first value that `read` gives; the caller's test has its own time limit. */
export async function eventually<T>(read: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const value = await read();
    if (value !== undefined) return value;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The view digest of a call, once it waits. */
export const waitingView = (client: GatewayClient, callId: string): Promise<string> =>
  eventually(async () => {
    const found = await client.callById(callId);
    return found.ok && found.value.state === 'pending' ? found.value.viewDigest || undefined : undefined;
  });

/** Answers a waiting call and returns how it ended. */
export async function answerAndEnd(
  client: GatewayClient,
  call: SubmittedCall,
  answer: Omit<Decision, 'viewDigest'>,
): Promise<CallOutcome> {
  const viewDigest = await waitingView(client, call.callId);
  accepted(await client.decide(call.callId, { ...answer, viewDigest }));
  return call.result;
}

/** What a command of the product prints with `--json`. */
export async function commandOf(fleet: FleetUnderTest, ...args: string[]): Promise<unknown> {
  const bin = path.join(installationPath(), 'bin/countersign.mjs');
  const { stdout } = await promisify(execFile)(process.execPath, [bin, '--data', fleet.root, '--json', ...args]);
  return JSON.parse(stdout) as unknown;
}

/** A new session of the sample agent. */
export async function newSession(fleet: FleetUnderTest, more: Partial<SessionRequest> = {}): Promise<string> {
  const project = fleet.installation.data.sampleProject;
  const opened = await fleet.agent.openSession({ project, host: 'local', ...more });
  if (!opened.ok) throw new Error(`${opened.error.code}: ${opened.error.message}`);
  return opened.value.sessionId;
}

/** Submits a call and resolves when it is in one of `states`, or has ended. */
export async function callUntil(
  fleet: FleetUnderTest,
  request: Omit<CallRequest, 'onEvent'>,
  states: readonly string[],
): Promise<{ call: SubmittedCall; state: string; events: CallEvent[] }> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const events: CallEvent[] = [];
  const onEvent = (event: CallEvent) => {
    events.push(event);
    if (states.includes(event.state)) resolve(event.state);
  };
  const call = await fleet.agent.call({ ...request, onEvent });
  const state = await Promise.race([promise, call.result.then((end) => end.state)]);
  return { call, state, events };
}
