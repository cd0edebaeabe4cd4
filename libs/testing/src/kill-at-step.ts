import { readFileSync, rmSync } from 'node:fs';

/**
 * A step function that ends this process with SIGKILL when `armFile` names the step reached. The file is removed first, so
 * that the next process lives and a test sees that the step was reached.
 */
export function killAtStep(armFile: string): (step: string) => void {
  return (step) => {
    let armed = '';
    try {
      armed = readFileSync(armFile, 'utf8').trim();
    } catch {
      return;
    }
    if (armed !== step) return;
    rmSync(armFile);
    process.kill(process.pid, 'SIGKILL');
  };
}
