import { mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CommandEnding, ToolLimits } from '../work/host-tools.ts';
import { Backends } from './backends.ts';
import { isRoot, ToolsUnderTest } from './testing/tools-under-test.ts';

const host = new ToolsUnderTest();
const { tools } = host;
const project = host.project();

const limits = (change: Partial<ToolLimits> = {}): ToolLimits =>
  host.limits(project, { backend: 'app-guard', ...change });
const bash = (command: string, change: Partial<ToolLimits> = {}) => tools.bash({ command }, limits(change));
const said = (ending: CommandEnding): string =>
  ending.ending === 'sandbox_failed' ? ending.error.message : Buffer.from(ending.stdout).toString('utf8').trim();
const stateOf = (pid: string): string => {
  try {
    return /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
  } catch {
    return 'gone';
  }
};
const isGone = (pid: string): boolean => ['gone', 'Z', 'X'].includes(stateOf(pid));

afterAll(async () => {
  await host.close();
});

// An account that is shared with the runner may have the installations of whoever runs this.
describe.runIf(isRoot)('the app-guard', () => {
  test('is off until the self-test looked at the account', async () => {
    expect(said(await bash('echo ran'))).toContain('the self-test has not run yet');
  });

  describe('where the account can read nothing of ours', () => {
    beforeAll(async () => {
      expect((await tools.selfTest()).backends).toEqual(['bubblewrap', 'app-guard']);
    });

    test('runs a command outside every namespace, and says so', async () => {
      const ending = await bash('readlink /proc/self/ns/pid; exit 7');
      expect(ending).toMatchObject({ ending: 'exited', exitCode: 7, backend: 'app-guard' });
      expect(said(ending)).toBe(readlinkSync('/proc/self/ns/pid'));
    });

    test('is not used for an order that does not name it', async () => {
      expect(await bash('true', { backend: '' })).toMatchObject({ backend: 'bubblewrap' });
      expect(await bash('true', { backend: 'auto' })).toMatchObject({ backend: 'bubblewrap' });
    });

    test('gives the command no variable of ours', async () => {
      process.env.COUNTERSIGN_TEST_SECRET = 'x';
      process.env.APP_GUARD_TEST = 'y';
      const shown = said(await bash('env', { environmentNames: ['COUNTERSIGN_*', 'APP_GUARD_*'] }));
      expect(shown).toContain('APP_GUARD_TEST=y');
      expect(shown).not.toMatch(/COUNTERSIGN|NODE_CHANNEL/);
    });

    test('never runs in hardened mode, nor does anything stand in for it there', async () => {
      const ending = await bash('echo ran', { hardened: true, backendFallback: true });
      expect(said(ending)).toBe('backend `app-guard` is off: hardened mode runs commands only in a sandbox');
    });

    test.each([
      ['by name', 'cat secret.env'],
      ['from its folder', 'cd /; cat ./project/../secret.env'],
      ['by a link', 'cat link'],
      ['in quotes', `cat "sec"'ret'.env`],
      ['with a backslash', 'cat secre\\t.env'],
      ['as an option', 'tool --file=secret.env'],
      ['below a denied folder', 'ls vault/deep/er'],
    ])('refuses a command that names a denied path %s', async (_title, command) => {
      writeFileSync(path.join(project, 'secret.env'), 'k');
      mkdirSync(path.join(project, 'vault'), { recursive: true });
      rmSync(path.join(project, 'link'), { force: true });
      symlinkSync('secret.env', path.join(project, 'link'));
      const ending = await bash(command, { denyRead: ['secret.env', 'vault/**'] });
      expect(ending).toMatchObject({ ending: 'sandbox_failed', error: { code: 'countersign.runner.private_path' } });
    });

    test('refuses one that names a path of a write rule', async () => {
      expect(await bash('echo x > build/out.lock', { denyWrite: ['**/*.lock'] })).toMatchObject({
        ending: 'sandbox_failed',
      });
      expect(await bash('echo fine', { denyWrite: ['**/*.lock'] })).toMatchObject({ ending: 'exited', exitCode: 0 });
    });

    test.each([
      ['any address without the network', 'echo http://example.com/', 'workspace-write', [], false],
      ['an address that is not listed', 'echo https://example.com.evil.example/', 'networked', ['example.com'], false],
      ['a name before @', 'echo https://example.com@evil.example/', 'networked', ['example.com'], false],
      ['another port', 'echo https://example.com:8443/', 'networked', ['example.com'], false],
      ['a listed address', 'echo https://example.com/path', 'networked', ['example.com'], true],
      ['an address under full access', 'echo https://example.com/', 'full-access', [], true],
    ] as const)('judges %s', async (_title, command, profile, hosts, runs) => {
      const ending = await bash(command, { profile, hosts });
      expect(ending.ending).toBe(runs ? 'exited' : 'sandbox_failed');
    });

    test('ends what a command left in its process group', async () => {
      const pid = said(await bash('sleep 600 >/dev/null 2>&1 & echo $!'));
      await expect.poll(() => isGone(pid)).toBe(true);
    });

    test('ends the whole group at the time limit and at a stop', async () => {
      const late = await bash('trap "" TERM; sleep 600 & echo $!; wait', { timeoutMs: 300 });
      expect(late).toMatchObject({ ending: 'killed', killedBy: 'timeout' });
      await expect.poll(() => isGone(said(late))).toBe(true);
      const end = new AbortController();
      const marker = path.join(project, 'started');
      const running = bash(`echo $$ > ${marker}; exec sleep 600`, { signal: end.signal });
      await expect.poll(() => readFileSync(marker, 'utf8').trim()).not.toBe('');
      end.abort('stopped');
      expect(await running).toMatchObject({ ending: 'killed', killedBy: 'stop' });
      await expect.poll(() => isGone(readFileSync(marker, 'utf8').trim())).toBe(true);
    });

    test('ends the group when the launcher is killed', async () => {
      const marker = path.join(project, 'group');
      const running = bash(`sleep 600 & echo $PPID $! > ${marker}.new; mv ${marker}.new ${marker}; wait`);
      await expect.poll(() => readFileSync(marker, 'utf8')).toMatch(/\d+ \d+/);
      const [launcher = '', sleeper = ''] = readFileSync(marker, 'utf8').trim().split(' ');
      process.kill(Number(launcher), 'SIGKILL');
      expect(await running).toMatchObject({ ending: 'killed', backend: 'app-guard' });
      await expect.poll(() => isGone(sleeper)).toBe(true);
    });

    test('does not hold up a command that waits for all of its children', async () => {
      expect(said(await bash('exec perl -e "print wait"'))).toBe('-1');
    });
  });

  test('is off, also when asked for again, where the account can read what every sandbox masks', async () => {
    const open = host.folder('home/.local/state/countersign/abc/private');
    expect((await tools.selfTest()).backends).toEqual(['bubblewrap']);
    expect(said(await bash('echo ran'))).toContain(`its account can read \`${open}\``);
  });
});

describe('a shared account', () => {
  const wish = limits();
  const report = { backends: ['bubblewrap'], reason: '', appGuardOff: '' };

  test('has the app-guard only where it is accepted by name', () => {
    const shared = new Backends({ runAs: null });
    expect(shared.after(report).backends).toEqual(['bubblewrap']);
    expect(shared.of(wish)).toMatchObject({ ok: false, error: { code: 'countersign.runner.sandbox_unavailable' } });
    const accepting = new Backends({ runAs: null, accept: ['app-guard'] });
    expect(accepting.after(report).backends).toEqual(['bubblewrap', 'app-guard']);
    expect(accepting.of(wish)).toEqual({ ok: true, value: 'app-guard' });
  });

  test('a sandbox that failed its self-test runs nothing, with or without an app-guard', () => {
    const backends = new Backends({ runAs: {} });
    backends.after({ backends: [], reason: 'canaries got through', appGuardOff: '' });
    expect(backends.of({ ...wish, backend: '', backendFallback: true })).toMatchObject({ ok: false });
    expect(backends.of(wish)).toEqual({ ok: true, value: 'app-guard' });
  });
});
