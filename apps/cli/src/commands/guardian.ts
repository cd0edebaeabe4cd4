import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

const modelSchema = z.looseObject({
  version: z.string(),
  compared: z.number(),
  agreed: z.number(),
  approvedButDenied: z.number(),
  deniedButApproved: z.number(),
  failed: z.number(),
  standing: z.string(),
  recentRate: z.number().optional(),
  proposal: z.looseObject({ rate: z.number(), compared: z.number() }).optional(),
});
const disagreementSchema = z.looseObject({
  call: z.string(),
  version: z.string(),
  summary: z.string(),
  opinion: z.string(),
  human: z.string(),
  by: z.string(),
});

const pausedSchema = z.looseObject({ id: z.string(), agent: z.string(), call: z.string(), pausedMs: z.number() });

const percent = (share: number): string => `${Math.round(share * 100)} %`;

const modelLine = (model: z.infer<typeof modelSchema>): string =>
  [
    `${model.version}: ${model.standing}`,
    `agreed ${model.agreed} of ${model.compared}${model.recentRate === undefined ? '' : `, lately ${percent(model.recentRate)}`}`,
    `would have approved ${model.approvedButDenied} that people denied`,
    `would have denied ${model.deniedButApproved} that people approved`,
    `${model.failed} without a verdict`,
    ...(model.proposal
      ? [`PROPOSED: let it advise only (${percent(model.proposal.rate)} of ${model.proposal.compared})`]
      : []),
  ].join('; ');

const differenceLine = (one: z.infer<typeof disagreementSchema>): string =>
  `${one.call}  ${one.version} would ${one.opinion}, ${one.by} ${one.human}  ${one.summary}`;

const pausedLine = (one: z.infer<typeof pausedSchema>): string =>
  `${one.id}  agent ${one.agent}  since ${new Date(one.pausedMs).toISOString()}, after ${one.call}`;

/** Sessions whose turn waits for a person. */
function addPausedCommands(guardian: Command): void {
  guardian
    .command('paused')
    .description('sessions whose turn is paused after repeated denials')
    .action(async (_options: object, command: Command) => {
      const client = localGateway(command, 'local-operator');
      const schema = z.object({ sessions: z.array(pausedSchema) });
      const found = accepted(await client.request('GET', '/v1/guardian/paused', schema));
      print(command, found, found.sessions.map(pausedLine).join('\n') || 'no turn is paused');
    });
  guardian
    .command('resume <session>')
    .description('let a paused turn go on')
    .requiredOption('--reason <text>', 'why; recorded')
    .action(async (session: string, { reason }: { reason: string }, command: Command) => {
      const client = localGateway(command, 'local-operator');
      const path = `/v1/sessions/${encodeURIComponent(session)}/resume`;
      const ended = accepted(await client.request('POST', path, z.object({ id: z.string() }), { reason }));
      print(command, ended, `${ended.id}: goes on`);
    });
}

/** `countersign guardian agreement | disagreements | standing | paused | resume`. */
export function addGuardianCommand(program: Command): void {
  const guardian = program
    .command('guardian')
    .description('how far the opinions of models agree with people, and turns that it paused');
  addPausedCommands(guardian);
  guardian
    .command('agreement')
    .description('figures of each model version, and demotions that wait for an operator')
    .action(async (_options: object, command: Command) => {
      const schema = z.looseObject({ models: z.array(modelSchema) });
      const client = localGateway(command, 'local-operator');
      const found = accepted(await client.request('GET', '/v1/guardian/agreement', schema));
      print(command, found, found.models.map(modelLine).join('\n') || 'nothing was compared yet');
    });
  guardian
    .command('disagreements')
    .description('the latest calls on which a model and a person differed')
    .action(async (_options: object, command: Command) => {
      const schema = z.object({ disagreements: z.array(disagreementSchema) });
      const client = localGateway(command, 'local-operator');
      const found = accepted(await client.request('GET', '/v1/guardian/disagreements', schema));
      print(command, found, found.disagreements.map(differenceLine).join('\n') || 'no difference is known');
    });
  guardian
    .command('standing <version> <standing>')
    .description('confirm a demotion (`advising`), or let a model version decide again (`deciding`)')
    .requiredOption('--reason <text>', 'why; recorded')
    .action(async (version: string, standing: string, { reason }: { reason: string }, command: Command) => {
      const schema = z.object({ version: z.string(), standing: z.string() });
      const client = localGateway(command, 'local-operator');
      const changed = accepted(
        await client.request('POST', '/v1/guardian/standing', schema, { version, standing, reason }),
      );
      print(command, changed, `${changed.version}: ${changed.standing}`);
    });
}
