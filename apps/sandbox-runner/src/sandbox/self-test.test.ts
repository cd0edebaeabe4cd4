import { chmodSync, copyFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CommandUnderTest } from './testing/command-under-test.ts';

const under = new CommandUnderTest();
afterAll(() => under.close());

/** A host of its own where root of a user namespace prepares `setting`; what runs there has no way to undo it. */
const host = (setting: string): readonly string[] => [
  ...['/usr/bin/unshare', '--user', '--map-root-user', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'],
  ...['/bin/sh', '-c', `${setting} && exec "$@"`, 'sh'],
];

function program(name: string, text: string): string {
  const file = path.join(under.base, name);
  writeFileSync(file, `#!/bin/sh\n${text}\n`);
  chmodSync(file, 0o755);
  return file;
}

const instead = (file: string): readonly string[] => host(`mount --bind '${file}' /usr/bin/bwrap`);

describe('the self-test', () => {
  it('holds on this host and says whose account commands have', async () => {
    const { status, stdout } = await under.sandbox(['doctor']);
    expect(stdout).toContain('sandbox holds');
    expect(stdout).toContain('can act as you');
    expect([status, stdout.match(/^FAIL/gm)]).toEqual([0, null]);
  });

  const OLD = program('old', 'echo "--seccomp FD --unshare-user"');
  const APPARMOR = program(
    'refused',
    'case "$1" in --help) echo "--json-status-fd --seccomp --remount-ro";; *) echo "bwrap: setting up uid map: Permission denied" >&2; exit 1;; esac',
  );
  const LYING = program(
    'lying',
    'case "$1" in --help) echo "--json-status-fd --seccomp --remount-ro"; exit;; esac\nwhile [ "$1" != -- ]; do shift; done; shift; echo \'{"child-pid": 1}\' >&4; "$@"; echo "{\\"exit-code\\": $?}" >&4',
  );

  copyFileSync('/usr/bin/bwrap', path.join(under.base, 'real'));
  const LAX = program(
    'lax',
    `case "$1" in --help) exec ${under.base}/real --help; esac\nwhile [ "$1" != -- ]; do shift; done; exec ${under.base}/real --die-with-parent --unshare-user --unshare-pid --bind / / --dev /dev --seccomp 3 --json-status-fd 4 "$@"`,
  );

  const DEAD = program('dead', '');
  chmodSync(DEAD, 0o644);

  it.each<[string, readonly string[], RegExp]>([
    [
      'without user namespaces',
      host('echo 0 > /proc/sys/user/max_user_namespaces'),
      /switched off.*max_user_namespaces/,
    ],
    ['with a masked /proc', host('mount -t tmpfs none /proc/fs'), /\/proc cannot be mounted.*unmasked/],
    ['with an old binary', instead(OLD), /lacks `--json-status-fd --remount-ro`/],
    ['where user namespaces are refused', instead(APPARMOR), /refuses user namespaces.*uid map/],
    ['with a binary that isolates nothing', instead(LYING), /did not put the command below.*did not run/],
    ['with a binary that isolates too little', instead(LAX), /canaries got through: .*outside-write.*network/],
    ['with a binary that cannot be started', instead(DEAD), /bwrap` does not run|is not installed/],
  ])('refuses %s, names the cause and runs nothing outside', async (_, behind, reason) => {
    const { status, stdout } = await under.sandbox(['doctor'], { behind });
    expect(stdout).toMatch(reason);
    expect([status, stdout.includes('sandbox holds')]).toEqual([125, false]);
  });

  it.runIf(under.isRoot)('drops a command of root to the run account, and refuses a project of root', async () => {
    const project = under.project();
    const env = { COUNTERSIGN_RUN_AS: String(under.uid), COUNTERSIGN_RUN_HOME: under.home };
    const script =
      'id -u; id -G; grep -E "^(CapEff|NoNewPrivs)" /proc/self/status; echo x >> /proc/sys/kernel/core_pattern; ulimit -p';
    const args = (folder: string) => ['exec', '--project', folder, '--', '/bin/sh', '-c', script];
    const asRoot = new CommandUnderTest({ asRoot: true });
    const { stdout } = await asRoot.sandbox(args(project), { env });
    expect(stdout).toBe(`${under.uid}\n${under.uid}\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n1024\n`);
    const refused = await asRoot.sandbox(args(asRoot.project()), { env });
    expect([refused.status, refused.stdout]).toEqual([125, '']);
    expect(refused.stderr).toMatch(/belongs to uid 0.*bad_owner/s);
    asRoot.close();
  });
});
