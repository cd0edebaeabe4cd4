import { describe, expect, it } from 'vitest';
import { diagnose, type HostSigns } from './diagnose.ts';

const plain: HostSigns = {
  apparmorRestrictsUserns: false,
  maxUserNamespaces: 100,
  forbidsUnprivilegedUserns: false,
  isContainer: false,
};

describe('diagnose', () => {
  it.each<[string, Partial<HostSigns>, RegExp]>([
    ['bwrap: setting up uid map: Permission denied', { apparmorRestrictsUserns: true }, /AppArmor/],
    ['bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted', { apparmorRestrictsUserns: true }, /AppArmor/],
    ['bwrap: Creating new namespace failed: Operation not permitted', { isContainer: true }, /container/],
    [
      "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
      { isContainer: true },
      /\/proc cannot be mounted/,
    ],
    ['bwrap: Creating new namespace failed: No space left on device', {}, /no user namespace is left/],
    ['anything', { maxUserNamespaces: 0 }, /switched off/],
    ['bwrap: No permissions to create new namespace', { forbidsUnprivilegedUserns: true }, /ordinary accounts/],
    ['bwrap: prctl(PR_SET_SECCOMP): Invalid argument', {}, /system call filter/],
    ['bwrap: setting up uid map: Permission denied', {}, /kernel refuses user namespaces/],
    ['bwrap: something new', {}, /something new/],
  ])('names the cause of `%s` with %j', (message, signs, cause) => {
    const found = diagnose(message, { ...plain, ...signs });
    expect(found.cause).toMatch(cause);
    expect(found.fix).not.toBe('');
  });
});
