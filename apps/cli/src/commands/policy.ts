import { readFileSync } from 'node:fs';
import { runCases } from '@countersign/policy';
import type { Command } from 'commander';
import { EXIT, print, RefusedError } from '../output.ts';

function readCases(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    throw new RefusedError(`cannot read \`${file}\``, 'countersign.cli.no_cases', EXIT.usage);
  }
}

/** `countersign policy eval`. */
export function addPolicyCommand(program: Command): void {
  program
    .command('policy')
    .description('the decision engine')
    .command('eval')
    .requiredOption('--cases <file>', 'JSON Lines of cases')
    .action(({ cases }: { cases: string }, command: Command) => {
      const { answers, ok } = runCases(readCases(cases));
      const wrong = answers.filter((answer) => !answer.ok);
      const lines = wrong.map(({ id, effect, reasons }) => `${id}: ${effect}: ${reasons.join('; ')}`);
      print(
        command,
        { ok, answers },
        [...lines, `${answers.length - wrong.length} of ${answers.length} as expected`].join('\n'),
      );
      process.exitCode = ok ? EXIT.ok : EXIT.refused;
    });
}
