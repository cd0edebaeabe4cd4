import path from 'node:path';
import { checkWorkspace } from './workspace/check.ts';

const violations = checkWorkspace(process.argv[2] ?? path.dirname(import.meta.dirname));
for (const { path: file, line, message } of violations) process.stderr.write(`${file}:${line} ${message}\n`);
process.stdout.write(
  violations.length === 0 ? 'import law, sizes and suppressions: clean\n' : `${violations.length} violations\n`,
);
process.exitCode = violations.length === 0 ? 0 : 1;
