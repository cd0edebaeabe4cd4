import { reportError } from './output.ts';
import { program } from './program.ts';

// A reader that has seen enough, such as `head`, is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
try {
  await program().parseAsync();
} catch (error) {
  process.exitCode = reportError(error, process.argv.includes('--json'));
}
