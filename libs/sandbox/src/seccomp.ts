import { type Architecture, EXAMINED_SYSCALLS, REFUSED_SYSCALLS } from './syscalls.ts';

/** One classic BPF instruction. */
export type BpfInstruction = { readonly code: number; readonly jt: number; readonly jf: number; readonly k: number };

const LOAD_WORD = 0x20;
const AND = 0x54;
const JUMP_EQUAL = 0x15;
const JUMP_GREATER_EQUAL = 0x35;
const JUMP_SET = 0x45;
const RETURN = 0x06;

/** Offsets into `struct seccomp_data`; both architectures are little endian, so the low half comes first. */
const NUMBER = 0;
const ARCHITECTURE = 4;
const argument = (index: number): number => 16 + 8 * index;

const KILL_PROCESS = 0x80000000;
const ALLOW = 0x7fff0000;
const errno = (value: number): number => 0x00050000 + value;
const EPERM = errno(1);
const ENOSYS = errno(38);
const EAFNOSUPPORT = errno(97);

const AUDIT_ARCH = { 'x86-64': 0xc000003e, aarch64: 0xc00000b7 } as const;
const X32_BIT = 0x40000000;
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_STREAM = 1;
const SOCK_SEQPACKET = 5;
const SOCK_TYPE_MASK = 0xf;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
const CLONE_NEWUSER = 0x10000000;

const load = (k: number): BpfInstruction => ({ code: LOAD_WORD, jt: 0, jf: 0, k });
const and = (k: number): BpfInstruction => ({ code: AND, jt: 0, jf: 0, k });
const give = (k: number): BpfInstruction => ({ code: RETURN, jt: 0, jf: 0, k });
const jump = (code: number, k: number, jt: number, jf: number): BpfInstruction => ({ code, jt, jf, k });

/** Answers when the accumulator equals `k`, else goes on. */
const giveIfEqual = (k: number, answer: number) => [jump(JUMP_EQUAL, k, 0, 1), give(answer)];

/** Every path through `block` returns, so that the accumulator holds the call number again for what follows. */
const forCall = (number: number, block: readonly BpfInstruction[]) => [
  jump(JUMP_EQUAL, number, 0, block.length),
  ...block,
];

const refuseNewUser = [load(argument(0)), jump(JUMP_SET, CLONE_NEWUSER, 0, 1), give(EPERM), give(ALLOW)];

/** Socket families of a sandbox: `internet` has no AF_UNIX, `internet-and-unix` is for hosts whose sockets are masked. */
export type SocketRule = 'internet' | 'internet-and-unix' | 'all';

const FAMILIES = [AF_INET, AF_INET6, AF_NETLINK];

const socketBlock = (families: readonly number[]) => [
  load(argument(0)),
  ...families.flatMap((family) => giveIfEqual(family, ALLOW)),
  give(EAFNOSUPPORT),
];

/** SECURITY: a datagram pair can be re-aimed at a socket file with connect(), a stream pair cannot. */
const socketpairBlock = [
  load(argument(0)),
  jump(JUMP_EQUAL, AF_UNIX, 1, 0),
  give(EPERM),
  load(argument(1)),
  and(SOCK_TYPE_MASK),
  ...giveIfEqual(SOCK_STREAM, ALLOW),
  ...giveIfEqual(SOCK_SEQPACKET, ALLOW),
  give(EPERM),
];

const ioctlBlock = [load(argument(1)), ...giveIfEqual(TIOCSTI, EPERM), ...giveIfEqual(TIOCLINUX, EPERM), give(ALLOW)];

const unixPairBlock = [load(argument(0)), ...giveIfEqual(AF_UNIX, ALLOW), give(EPERM)];

function socketRules(rule: SocketRule, socket: number, socketpair: number): readonly BpfInstruction[] {
  if (rule === 'all') return [];
  const families = rule === 'internet' ? FAMILIES : [AF_UNIX, ...FAMILIES];
  return [
    ...forCall(socket, socketBlock(families)),
    ...forCall(socketpair, rule === 'internet' ? socketpairBlock : unixPairBlock),
  ];
}

/**
 * The filter of every profile, as instructions. A foreign ABI ends the process; x32 numbers and clone3 answer ENOSYS, so
 * that libc falls back to calls whose arguments a filter can see.
 */
export function seccompProgram(
  architecture: Architecture,
  sockets: SocketRule = 'internet',
): readonly BpfInstruction[] {
  const number = (name: keyof typeof EXAMINED_SYSCALLS): number => EXAMINED_SYSCALLS[name][architecture] ?? Number.NaN;
  const refused = Object.values(REFUSED_SYSCALLS)
    .map((numbers) => numbers[architecture])
    .filter((value) => value !== undefined);
  return [
    load(ARCHITECTURE),
    jump(JUMP_EQUAL, AUDIT_ARCH[architecture], 1, 0),
    give(KILL_PROCESS),
    load(NUMBER),
    ...(architecture === 'x86-64' ? [jump(JUMP_GREATER_EQUAL, X32_BIT, 0, 1), give(ENOSYS)] : []),
    ...refused.flatMap((value) => giveIfEqual(value, EPERM)),
    ...giveIfEqual(number('clone3'), ENOSYS),
    ...forCall(number('clone'), refuseNewUser),
    ...forCall(number('unshare'), refuseNewUser),
    ...socketRules(sockets, number('socket'), number('socketpair')),
    ...forCall(number('ioctl'), ioctlBlock),
    give(ALLOW),
  ];
}

const RECORD_BYTES = 8;

/** The program as the kernel's `struct sock_filter` records, which bubblewrap reads from `--seccomp`. */
export function encodeSeccomp(program: readonly BpfInstruction[]): Uint8Array {
  const bytes = new Uint8Array(program.length * RECORD_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [index, { code, jt, jf, k }] of program.entries()) {
    const offset = index * RECORD_BYTES;
    view.setUint16(offset, code, true);
    view.setUint8(offset + 2, jt);
    view.setUint8(offset + 3, jf);
    view.setUint32(offset + 4, k, true);
  }
  return bytes;
}
