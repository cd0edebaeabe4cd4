import type { Reporter, SerializedError, TestModule } from 'vitest/node';

/**
 * Prints `N passed, N failed` alone on the last line. A file that did not load, a failed hook, a test that was not
 * reached and an unhandled error count as failed. Skipped tests, and tests that passed only at a second try, are told on
 * lines of their own before it.
 */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, pending: 0, skipped: 0 };
    for (const module of modules) {
      count.failed += module.errors().length;
      for (const suite of module.children.allSuites()) count.failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        count[test.result().state] += 1;
        if (test.diagnostic()?.flaky)
          process.stdout.write(`\npassed at a second try: ${module.moduleId} > ${test.fullName}`);
      }
    }
    if (count.skipped > 0) process.stdout.write(`\n${count.skipped} skipped`);
    process.stdout.write(`\n${count.passed} passed, ${count.failed + count.pending} failed\n`);
  }
}
