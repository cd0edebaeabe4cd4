import { type SimulatedChange, type SimulationReport, simulate } from '@countersign/policy';
import type { Command } from 'commander';
import { EXIT, print } from '../output.ts';
import { readPolicySet, readRecordedCalls } from './policy-input.ts';

const example = ({ id, subject }: { id: string; subject: string }): string => `${id} ${JSON.stringify(subject)}`;

function changeLines(change: SimulatedChange): string[] {
  const lines = [`${change.from} -> ${change.to}: ${change.count}`];
  for (const [kind, groups] of [
    ['rule', change.byRule],
    ['tool', change.byTool],
    ['agent', change.byAgent],
  ] as const)
    for (const group of groups)
      lines.push(
        `  ${kind} ${group.name}: ${group.count}, for example ${group.examples.slice(0, 2).map(example).join(', ')}`,
      );
  return lines;
}

function reportText(report: SimulationReport): string {
  const { count, examples } = report.deniedByHumanNowAllowed;
  return [
    ...(count === 0 ? [] : [`WARNING: ${count} calls that a person denied would be allowed`]),
    ...examples.map((e) => `  ${e.agent} ${e.tool} ${example(e)}`),
    ...report.changes.flatMap(changeLines),
    `${report.total} calls, ${report.total - report.unchanged} would change`,
  ].join('\n');
}

/** `countersign policy simulate`. Ends with 1 when a call that a person denied would be allowed. */
export function addSimulateCommand(policy: Command): void {
  policy
    .command('simulate')
    .description('replay recorded calls against a new set and report what would change')
    .requiredOption('--calls <file>', 'recorded calls, JSON Lines')
    .requiredOption('--policy <files...>', 'the new set: FILE or LAYER=FILE')
    .option('--against <files...>', 'the set in force, for lines without a recorded `effect`')
    .action((options: { calls: string; policy: string[]; against?: string[] }, command: Command) => {
      const next = readPolicySet(options.policy);
      const old = options.against === undefined ? undefined : readPolicySet(options.against);
      const recorded = readRecordedCalls(options.calls).map((line) => ({
        ...line,
        security: { ...next.security, ...line.security },
      }));
      const report = simulate(next.set, recorded, old?.set);
      print(command, report, reportText(report));
      process.exitCode = report.deniedByHumanNowAllowed.count === 0 ? EXIT.ok : EXIT.refused;
    });
}
