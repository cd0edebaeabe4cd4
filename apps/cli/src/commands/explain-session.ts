import type { Call } from '@countersign/policy';
import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

const explanationSchema = z.looseObject({
  decision: z.looseObject({ effect: z.string(), reasons: z.array(z.string()), decidingRules: z.array(z.string()) }),
  mode: z.string(),
  tableRow: z.string(),
  ignoredWidenings: z.array(z.string()),
  files: z.array(
    z.looseObject({ layer: z.string(), digest: z.string(), state: z.string(), path: z.string().optional() }),
  ),
  rules: z.array(z.looseObject({ id: z.string(), says: z.array(z.string()), reach: z.string() })),
});

/** Prints what the gateway would answer in a session, with its permission files and saved rules. */
export async function explainSession(session: string, { tool, args }: Call, command: Command): Promise<void> {
  const route = `/v1/sessions/${encodeURIComponent(session)}/explain`;
  const found = accepted(
    await localGateway(command, 'local-operator').request('POST', route, explanationSchema, { tool, args }),
  );
  const lines = [
    found.decision.effect,
    ...found.decision.reasons.map((reason) => `  because ${reason}`),
    ...found.decision.decidingRules.map((rule) => `  deciding rule ${rule}`),
    `mode ${found.mode}: ${found.tableRow}`,
    ...found.files.map(({ layer, state, digest, path = '' }) => `${layer} file ${path} ${digest}: ${state}`),
    ...found.rules.map(({ id, says, reach }) => `saved rule ${id}: ${says.join(', ')}; ${reach}`),
    ...found.ignoredWidenings.map((what) => `ignored ${what}`),
  ];
  print(command, found, lines.join('\n'));
}
