import { type PolicySet, type SimulatedChange, type SimulationReport, simulate } from '@countersign/policy';
import type { Command } from 'commander';
import { EXIT, print } from '../output.ts';
import { type ReadSet, readPolicySet } from './policy-input.ts';
import { type RecordedLine, readRecordings } from './policy-recordings.ts';

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

/** The set for each call, in the permission mode of its session where the recording tells it. */
function setsOf({ set, inMode }: ReadSet): (line: RecordedLine) => PolicySet {
  const modes = new Map<string, PolicySet>();
  return ({ mode }) => {
    if (mode === undefined) return set;
    const known = modes.get(mode) ?? inMode(mode);
    modes.set(mode, known);
    return known;
  };
}

/** `countersign policy simulate`. Ends with 1 when a call that a person denied would be allowed. */
export function addSimulateCommand(policy: Command): void {
  policy
    .command('simulate')
    .description('replay recorded calls against a new set and report what would change')
    .requiredOption('--calls <place>', 'a folder of `audit export`, its log.ndjson, or recorded calls as JSON Lines')
    .requiredOption('--policy <files...>', 'the new set: FILE or LAYER=FILE')
    .option('--against <files...>', 'the set in force, for lines without a recorded `effect`')
    .action((options: { calls: string; policy: string[]; against?: string[] }, command: Command) => {
      const next = readPolicySet(options.policy);
      const old = options.against === undefined ? undefined : readPolicySet(options.against);
      const { calls, withoutArguments } = readRecordings(options.calls);
      const recorded = calls.map((line) => ({ ...line, security: { ...next.security, ...line.security } }));
      const report = simulate(setsOf(next), recorded, old === undefined ? undefined : setsOf(old));
      const left =
        withoutArguments === 0 ? '' : `\n${withoutArguments} calls hold no arguments in the record and were left out`;
      print(command, { ...report, withoutArguments }, `${reportText(report)}${left}`);
      process.exitCode = report.deniedByHumanNowAllowed.count === 0 ? EXIT.ok : EXIT.refused;
    });
}
