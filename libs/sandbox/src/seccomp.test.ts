import { describe, expect, it } from 'vitest';
import { type BpfInstruction, encodeSeccomp, type SocketRule, seccompProgram } from './seccomp.ts';
import { type Architecture, EXAMINED_SYSCALLS, REFUSED_SYSCALLS } from './syscalls.ts';

const ARCH = { 'x86-64': 0xc000003e, aarch64: 0xc00000b7 } as const;
const NAMES: Readonly<Record<number, string>> = {
  2147483648: 'kill',
  2147418112: 'allow',
  327681: 'EPERM',
  327718: 'ENOSYS',
  327777: 'EAFNOSUPPORT',
};

function decode(bytes: Uint8Array): BpfInstruction[] {
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 8 }, (_, index) => ({
    code: view.getUint16(index * 8, true),
    jt: view.getUint8(index * 8 + 2),
    jf: view.getUint8(index * 8 + 3),
    k: view.getUint32(index * 8 + 4, true),
  }));
}

function interpret(program: readonly BpfInstruction[], data: DataView): string {
  let accumulator = 0;
  for (let at = 0; at < program.length; at += 1) {
    const { code, jt, jf, k } = program[at] as BpfInstruction;
    if (code === 0x06) return NAMES[k] ?? `answer ${k}`;
    if (code === 0x20) accumulator = data.getUint32(k, true);
    else if (code === 0x54) accumulator = (accumulator & k) >>> 0;
    else if (code === 0x15) at += accumulator === k ? jt : jf;
    else if (code === 0x35) at += accumulator >= k ? jt : jf;
    else if (code === 0x45) at += (accumulator & k) !== 0 ? jt : jf;
    else throw new Error(`instruction ${code} is not in the filter's vocabulary`);
  }
  throw new Error('the program runs off its end');
}

function answer(arch: Architecture, number: number, args: readonly bigint[] = [], audit: number = ARCH[arch]): string {
  const data = new DataView(new ArrayBuffer(64));
  data.setUint32(0, number, true);
  data.setUint32(4, audit, true);
  for (const [index, value] of args.entries()) data.setBigUint64(16 + index * 8, value, true);
  return interpret(decode(encodeSeccomp(seccompProgram(arch))), data);
}

describe.each(['x86-64', 'aarch64'] as const)('the %s filter', (arch) => {
  const call = (name: keyof typeof EXAMINED_SYSCALLS, ...args: bigint[]) =>
    answer(arch, EXAMINED_SYSCALLS[name][arch] as number, args);

  it('refuses every call of the refused table', () => {
    for (const [name, numbers] of Object.entries(REFUSED_SYSCALLS)) {
      const number = numbers[arch];
      if (number !== undefined) expect([name, answer(arch, number)]).toEqual([name, 'EPERM']);
    }
  });

  it('ends a process that uses a foreign ABI', () => {
    expect(answer(arch, 1, [], 0x40000003)).toBe('kill');
    expect(answer(arch, 1, [], arch === 'aarch64' ? ARCH['x86-64'] : ARCH.aarch64)).toBe('kill');
  });

  it('opens internet and netlink sockets and no other family', () => {
    const allowed = Array.from({ length: 64 }, (_, family) => family).filter(
      (family) => call('socket', BigInt(family), 1n) === 'allow',
    );
    expect(allowed).toEqual([2, 10, 16]);
  });

  it('ignores the upper half of an argument that the kernel cuts off', () => {
    expect(call('socket', 0x1_0000_0001n)).toBe('EAFNOSUPPORT');
    expect(call('ioctl', 0n, 0x1_0000_5412n)).toBe('EPERM');
  });

  it('makes stream and seqpacket pairs, with any flags, and no datagram pair', () => {
    const outcomes = [1n, 2n, 3n, 5n].map((type) => call('socketpair', 1n, type | 0x80800n));
    expect(outcomes).toEqual(['allow', 'EPERM', 'EPERM', 'allow']);
    expect(call('socketpair', 2n, 1n)).toBe('EPERM');
  });

  it('keeps terminals from being typed into', () => {
    expect([0x5412n, 0x541cn, 0x5401n].map((request) => call('ioctl', 0n, request))).toEqual([
      'EPERM',
      'EPERM',
      'allow',
    ]);
  });

  it('refuses user namespaces and lets threads and forks through', () => {
    expect(call('clone', 0x10000011n)).toBe('EPERM');
    expect(call('unshare', 0x10000000n)).toBe('EPERM');
    expect(call('clone', 0x003d0f00n)).toBe('allow');
    expect(call('clone3')).toBe('ENOSYS');
  });

  it('allows a call that no rule names', () => {
    expect(answer(arch, arch === 'x86-64' ? 257 : 56)).toBe('allow');
  });
});

describe('the filter of other socket rules', () => {
  const socketsOf = (rule: SocketRule) => {
    const run = (name: 'socket' | 'socketpair', ...args: bigint[]) => {
      const data = new DataView(new ArrayBuffer(64));
      data.setUint32(0, EXAMINED_SYSCALLS[name]['x86-64'], true);
      data.setUint32(4, ARCH['x86-64'], true);
      for (const [index, value] of args.entries()) data.setBigUint64(16 + index * 8, value, true);
      return interpret(decode(encodeSeccomp(seccompProgram('x86-64', rule))), data);
    };
    const families = Array.from({ length: 64 }, (_, family) => family);
    return [families.filter((family) => run('socket', BigInt(family)) === 'allow'), run('socketpair', 1n, 2n)] as const;
  };

  it('adds AF_UNIX alone where host sockets are masked', () => {
    expect(socketsOf('internet-and-unix')).toEqual([[1, 2, 10, 16], 'allow']);
  });

  it('leaves every family open for `all` and keeps the rest of the filter', () => {
    expect(socketsOf('all')[0].length).toBe(64);
    expect(seccompProgram('x86-64', 'all').length).toBeGreaterThan(100);
  });
});

describe('the x86-64 filter', () => {
  it('answers ENOSYS to x32 numbers', () => {
    expect(answer('x86-64', 0x40000000 + 41, [1n])).toBe('ENOSYS');
  });
});
