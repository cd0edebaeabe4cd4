// What has to be installed, and whether this account may. No effects: facts come in, a plan goes out.

const NEEDED = [
  {
    name: 'nats-server',
    paths: [
      '/usr/sbin/nats-server',
      '/usr/bin/nats-server',
      '/usr/local/bin/nats-server',
      '/opt/homebrew/bin/nats-server',
    ],
    platforms: ['linux', 'darwin'],
  },
  { name: 'bubblewrap', paths: ['/usr/bin/bwrap'], platforms: ['linux'] },
  {
    name: 'ripgrep',
    paths: ['/usr/bin/rg', '/opt/homebrew/bin/rg', '/usr/local/bin/rg'],
    platforms: ['linux', 'darwin'],
  },
];

/** Only the tests of the desk open a browser. */
const NEEDED_BY_TESTS = [
  {
    name: 'chromium',
    paths: ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
    platforms: ['linux'],
  },
];

/**
 * @param {{ platform: string, exists: (file: string) => boolean, isRoot: boolean, sudoWithoutPassword: () => boolean, forTests?: boolean }} facts
 * @returns {{ missing: string[], commands: string[][], shown: string, mayInstall: boolean }}
 * `sudoWithoutPassword` is asked only when something is missing.
 * `shown` is the exact text for a shell; `commands` are the same as argument lists.
 */
export function installPlan({ platform, exists, isRoot, sudoWithoutPassword, forTests = false }) {
  const missing = [...NEEDED, ...(forTests ? NEEDED_BY_TESTS : [])]
    .filter(({ paths, platforms }) => platforms.includes(platform) && !paths.some((file) => exists(file)))
    .map(({ name }) => name);
  const apt = [
    ['apt-get', 'update', '-qq'],
    ['apt-get', 'install', '-y', ...missing],
  ];
  const plain = platform === 'darwin' ? [['brew', 'install', ...missing]] : apt;
  const hasApt = platform === 'linux' && exists('/usr/bin/apt-get');
  const prefix = isRoot || platform === 'darwin' ? [] : ['sudo'];
  return {
    missing,
    commands: plain.map((command) => [...prefix, ...(prefix.length > 0 ? ['-n'] : []), ...command]),
    shown: plain.map((command) => [...prefix, ...command].join(' ')).join(' && '),
    mayInstall: hasApt && missing.length > 0 && (isRoot || sudoWithoutPassword()),
  };
}

/**
 * What nobody has verified on this platform; undefined where everything was.
 * @param {{ platform: string, arch: string, debianVersion: string }} facts
 */
export function unverified({ platform, arch, debianVersion }) {
  if (platform === 'darwin') return 'macOS: nothing was verified here; the sandbox would be Seatbelt';
  if (platform !== 'linux') return `${platform}: not supported; the sandbox and the servers will not start`;
  if (!debianVersion.startsWith('12')) return 'only Debian 12 was verified; on this Linux the sandbox may be refused';
  return arch === 'x64' ? undefined : `${arch}: only x64 was verified`;
}
