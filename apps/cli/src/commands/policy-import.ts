import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { importLingxiao, showProblem } from '@countersign/policy';
import { type Command, Option } from 'commander';
import { EXIT, print, RefusedError } from '../output.ts';
import { readInput } from './policy-input.ts';

function writeNew(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: 'wx', mode: 0o644 });
  } catch {
    const message = `\`${file}\` cannot be written, or is there already; name another file`;
    throw new RefusedError(message, 'countersign.cli.no_output', EXIT.usage);
  }
}

/** `countersign policy import`: a permission file of another system as a policy file, whole or not at all. */
export function addImportCommand(policy: Command): void {
  policy
    .command('import <file>')
    .description('make a policy file of a permission file of another system; one thing not understood refuses it whole')
    .addOption(new Option('--from <system>', 'the system').choices(['lingxiao']).makeOptionMandatory())
    .option('--out <file>', 'a new file for the policy (default: standard output)')
    .action((file: string, { out }: { out?: string }, command: Command) => {
      const read = importLingxiao(readInput(file), path.normalize(file));
      if (!read.ok) throw new RefusedError(read.error.map(showProblem).join('\n'), 'countersign.cli.bad_policy');
      const { layer, lines } = read.value;
      const text = `${JSON.stringify(layer, undefined, 2)}\n`;
      if (out === undefined) return void process.stdout.write(text);
      writeNew(out, text);
      print(command, { file: out, rules: lines.size }, `${out}: ${lines.size} rules; try it with \`policy explain\``);
    });
}
