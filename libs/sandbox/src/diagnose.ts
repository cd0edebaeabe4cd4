/** What a host shows of itself that can keep a sandbox from starting. */
export type HostSigns = {
  /** `kernel.apparmor_restrict_unprivileged_userns` is on. */
  readonly apparmorRestrictsUserns: boolean;
  /** `user.max_user_namespaces`; undefined where the kernel has none. */
  readonly maxUserNamespaces: number | undefined;
  /** `kernel.unprivileged_userns_clone` is off. */
  readonly forbidsUnprivilegedUserns: boolean;
  readonly isContainer: boolean;
};

/** Why a sandbox does not start, and what to do about it. */
export type Diagnosis = { readonly cause: string; readonly fix: string };

type Case = { readonly applies: (message: string, signs: HostSigns) => boolean } & Diagnosis;

const REFUSED = /uid map|gid map|new namespace|No permissions|not permitted|Permission denied|loopback/i;

/** The first that applies is meant; certain signs come before the words of a message. */
const CASES: readonly Case[] = [
  {
    applies: (_, { maxUserNamespaces }) => maxUserNamespaces === 0,
    cause: 'user namespaces are switched off on this host',
    fix: 'set `sysctl user.max_user_namespaces=15000`',
  },
  {
    applies: (_, { forbidsUnprivilegedUserns }) => forbidsUnprivilegedUserns,
    cause: 'user namespaces are refused to ordinary accounts',
    fix: 'set `sysctl kernel.unprivileged_userns_clone=1`',
  },
  {
    applies: (message) => /No space left/i.test(message),
    cause: 'no user namespace is left on this host',
    fix: 'raise `sysctl user.max_user_namespaces`, or end what uses them',
  },
  {
    applies: (message) => /proc/i.test(message),
    cause: '/proc cannot be mounted, because parts of this one are masked or read-only, as container engines do',
    fix: 'start the container with an unmasked /proc (`--security-opt systempaths=unconfined`), or run outside it',
  },
  {
    applies: (message, { apparmorRestrictsUserns }) => apparmorRestrictsUserns && REFUSED.test(message),
    cause: 'AppArmor refuses user namespaces to bubblewrap, as Ubuntu 24.04 does by default',
    fix:
      'add /etc/apparmor.d/bwrap with `profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` and run ' +
      '`apparmor_parser -r /etc/apparmor.d/bwrap`',
  },
  {
    applies: (message, { isContainer }) => isContainer && REFUSED.test(message),
    cause: "the container's system call filter or missing capability refuses user namespaces",
    fix: 'start the container with a seccomp profile that allows `unshare`, `clone` and `mount`, or run outside it',
  },
  {
    applies: (message) => /seccomp/i.test(message),
    cause: 'the kernel refuses the system call filter',
    fix: 'use a kernel with CONFIG_SECCOMP_FILTER',
  },
  {
    applies: (message) => REFUSED.test(message),
    cause: 'the kernel refuses user namespaces',
    fix: 'allow unprivileged user namespaces on this host',
  },
];

/** Reads the message of a failed bubblewrap in the light of the host. */
export function diagnose(message: string, signs: HostSigns): Diagnosis {
  const found = CASES.find(({ applies }) => applies(message, signs));
  if (!found)
    return { cause: message, fix: 'run `bwrap --unshare-user --ro-bind / / true` as this account to see more' };
  return { cause: found.cause, fix: found.fix };
}
