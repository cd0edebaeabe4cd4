import { expect, test } from 'vitest';
import { installPlan, unverified } from '../bin/install-plan.mjs';

const host = (present: readonly string[], changes: object = {}) => ({
  platform: 'linux',
  exists: (file: string) => present.includes(file),
  isRoot: true,
  sudoWithoutPassword: () => false,
  ...changes,
});
const APT = '/usr/bin/apt-get';

test('a complete host installs nothing', () => {
  expect(installPlan(host([APT, '/usr/sbin/nats-server', '/usr/bin/bwrap', '/usr/bin/rg'])).missing).toEqual([]);
});

test('root installs exactly what is missing', () => {
  expect(installPlan(host([APT, '/usr/sbin/nats-server', '/usr/bin/rg']))).toEqual({
    missing: ['bubblewrap'],
    commands: [
      ['apt-get', 'update', '-qq'],
      ['apt-get', 'install', '-y', 'bubblewrap'],
    ],
    shown: 'apt-get update -qq && apt-get install -y bubblewrap',
    mayInstall: true,
  });
});

test('a browser is installed for the tests only', () => {
  const complete = host([APT, '/usr/sbin/nats-server', '/usr/bin/bwrap', '/usr/bin/rg']);
  expect(installPlan(complete).missing).toEqual([]);
  expect(installPlan({ ...complete, forTests: true }).missing).toEqual(['chromium']);
});

test('an account with passwordless sudo installs through it and is never asked for a password', () => {
  const plan = installPlan(host([APT], { isRoot: false, sudoWithoutPassword: () => true }));
  expect(plan.mayInstall).toBe(true);
  expect(plan.shown).toBe('sudo apt-get update -qq && sudo apt-get install -y nats-server bubblewrap ripgrep');
  expect(plan.commands.every(([first, second]) => first === 'sudo' && second === '-n')).toBe(true);
});

test.each([
  ['without root or sudo', [APT], { isRoot: false }],
  ['without apt', [], {}],
  ['on macOS', [], { platform: 'darwin', isRoot: false, sudoWithoutPassword: () => true }],
])('%s nothing is installed and the command is shown', (_title, present, changes) => {
  const plan = installPlan(host(present, changes));
  expect(plan.mayInstall).toBe(false);
  expect(plan.shown).toContain('nats-server');
});

test('only Debian 12 on x64 is called verified', () => {
  const debian = { platform: 'linux', arch: 'x64', debianVersion: '12.5\n' };
  expect(unverified(debian)).toBeUndefined();
  expect(unverified({ ...debian, arch: 'arm64' })).toContain('x64');
  expect(unverified({ ...debian, debianVersion: '13.0\n' })).toContain('Debian 12');
  expect(unverified({ ...debian, debianVersion: '' })).toContain('Debian 12');
  expect(unverified({ ...debian, platform: 'darwin' })).toContain('macOS');
  expect(unverified({ ...debian, platform: 'win32' })).toContain('not supported');
});
