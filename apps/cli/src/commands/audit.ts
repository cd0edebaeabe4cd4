import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { accepted, localGateway, localLogKey } from '../local-installation.ts';
import { verifyExport } from '../log-bundle.ts';
import { EXIT, print, RefusedError } from '../output.ts';

const LOG_FILE = 'log.ndjson';

function readBundle(folder: string): string {
  try {
    return readFileSync(path.join(folder, LOG_FILE), 'utf8');
  } catch {
    throw new RefusedError(`\`${folder}\` holds no \`${LOG_FILE}\``, 'countersign.cli.no_bundle', EXIT.usage);
  }
}

type VerifyOptions = { key?: string; logName?: string; olderCheckpoint?: string };

function readCheckpoint(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    throw new RefusedError(`cannot read the kept checkpoint \`${file}\``, 'countersign.cli.no_checkpoint', EXIT.usage);
  }
}

/** `countersign audit export | verify`. Verify ends with 0 clean, 1 problems, 2 bundle or key missing. */
export function addAuditCommand(program: Command): void {
  const audit = program.command('audit').description('the record');
  audit
    .command('export')
    .requiredOption('--out <folder>', 'folder for the bundle')
    .action(async ({ out }: { out: string }, command: Command) => {
      const text = accepted(await localGateway(command, 'local-auditor').exportLog());
      mkdirSync(out, { recursive: true });
      writeFileSync(path.join(out, LOG_FILE), text);
      writeFileSync(path.join(out, 'log-key.json'), `${JSON.stringify(localLogKey(command))}\n`);
      print(command, { folder: out, bytes: text.length }, `wrote ${path.join(out, LOG_FILE)}`);
    });
  audit
    .command('verify <folder>')
    .description('verify an exported log offline')
    .option('--key <nkey>', "the log's public key, as you know it (default: this installation's roster)")
    .option('--log-name <name>', "the log's name")
    .option('--older-checkpoint <file>', 'a checkpoint kept from earlier; the log must extend it')
    .action((folder: string, { key, logName, olderCheckpoint }: VerifyOptions, command: Command) => {
      const log = key && logName ? { publicKey: key, name: logName } : localLogKey(command);
      const { problems, entries, openCalls } = verifyExport(
        readBundle(folder),
        log,
        olderCheckpoint === undefined ? undefined : readCheckpoint(olderCheckpoint),
      );
      const lines = problems.map(({ index, code, message }) => `entry ${index ?? '-'}: ${code}: ${message}`);
      const summary = `${entries} entries, ${openCalls.length} calls open, ${problems.length} problems`;
      print(command, { entries, openCalls, problems }, [...lines, summary].join('\n'));
      process.exitCode = problems.length === 0 ? EXIT.ok : EXIT.refused;
    });
}
