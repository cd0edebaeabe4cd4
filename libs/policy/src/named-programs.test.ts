import { expect, test } from 'vitest';
import { namedPrograms } from './named-programs.ts';

const where = { cwd: '/p', home: '/home/dev' };

test.each([
  ['./build.sh --fast', [], ['/p/build.sh']],
  ['sh -e scripts/run.sh && python3 -u tool.py x', ['sh', 'python3'], ['/p/scripts/run.sh', '/p/tool.py']],
  ["bash -c 'node lib/a.js'", ['bash', 'node'], ['/p/lib/a.js']],
  ['env A=1 timeout 5 ~/bin/deploy', ['env', 'timeout'], ['/home/dev/bin/deploy']],
  ['. ./env.sh; npm test', ['.', 'npm'], ['/p/env.sh']],
  ['sh "$SCRIPT"', ['sh'], []],
])('%s names what it starts', (command, programs, files) => {
  const named = namedPrograms(command, where);
  expect(named.files).toEqual(files);
  expect(programs.filter((program) => !named.programs.includes(program))).toEqual([]);
});

test('a command that cannot be read names nothing or less, and never throws', () => {
  for (const command of ['$((', "'", '`', 'a'.repeat(300_000)]) {
    expect(namedPrograms(command, where).files).toEqual([]);
  }
});
