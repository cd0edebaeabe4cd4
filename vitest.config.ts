import { defineConfig } from 'vitest/config';

/** Pure code shares workers; anything that starts servers gets processes of its own. */
const pure = ['libs/{kernel,patterns,policy,merkle,sandbox,protocol}/src/**/*.test.ts'];

export default defineConfig({
  test: {
    reporters: ['default', './tools/closing-line-reporter.ts'],
    projects: [
      {
        test: {
          name: 'pure',
          include: pure,
          pool: 'threads',
          isolate: false,
          testTimeout: 60_000,
          expect: { poll: { timeout: 20_000 } },
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'service',
          include: ['{apps,libs,tools,tests}/**/*.test.ts'],
          exclude: [...pure, '**/node_modules/**'],
          pool: 'forks',
          testTimeout: 90_000,
          // A second, the default, is short on a loaded machine.
          expect: { poll: { timeout: 20_000 } },
          hookTimeout: 120_000,
          // Several servers on a loaded machine: CI tries such a test once more, and the closing lines name it.
          retry: process.env.CI ? 1 : 0,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
