import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Agent, CallOutcome, SubmittedCall } from '@countersign/agent';
import type { Decision, GatewayClient } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
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

export async function startFleet(name: string): Promise<FleetUnderTest> {
  const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), `countersign-${name}-`));
  // The run account must be able to enter the folders above its project.
  chmodSync(root, 0o711);
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
