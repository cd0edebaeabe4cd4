import { keepCompiledCode } from './sandbox/code-cache.ts';
import { closeInheritedDescriptors } from './sandbox/inherited-descriptors.ts';

closeInheritedDescriptors();
keepCompiledCode(process.env);
const { runSandboxCommand } = await import('./sandbox/command-line.ts');
process.exitCode = await runSandboxCommand(process.argv.slice(2));
