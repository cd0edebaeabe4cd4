import { runSandboxCommand } from './sandbox/command-line.ts';
import { closeInheritedDescriptors } from './sandbox/inherited-descriptors.ts';

closeInheritedDescriptors();
process.exitCode = await runSandboxCommand(process.argv.slice(2));
