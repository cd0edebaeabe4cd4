/** CPU architectures whose system call numbers are known. */
export type Architecture = 'x86-64' | 'aarch64';

type SyscallNumbers = { readonly 'x86-64': number; readonly aarch64: number | undefined };

const at = (x86: number, aarch64?: number): SyscallNumbers => ({ 'x86-64': x86, aarch64 });

/** Calls whose arguments decide. Numbers: `asm/unistd_64.h` and `asm-generic/unistd.h` of Linux. */
export const EXAMINED_SYSCALLS = {
  socket: at(41, 198),
  socketpair: at(53, 199),
  ioctl: at(16, 29),
  clone: at(56, 220),
  clone3: at(435, 435),
  unshare: at(272, 97),
} as const;

/** Calls that always answer EPERM. */
export const REFUSED_SYSCALLS = {
  setns: at(308, 268),
  io_uring_setup: at(425, 425),
  io_uring_enter: at(426, 426),
  io_uring_register: at(427, 427),
  add_key: at(248, 217),
  request_key: at(249, 218),
  keyctl: at(250, 219),
  mount: at(165, 40),
  umount2: at(166, 39),
  pivot_root: at(155, 41),
  chroot: at(161, 51),
  open_tree: at(428, 428),
  open_tree_attr: at(467, 467),
  move_mount: at(429, 429),
  fsopen: at(430, 430),
  fsconfig: at(431, 431),
  fsmount: at(432, 432),
  fspick: at(433, 433),
  mount_setattr: at(442, 442),
  open_by_handle_at: at(304, 265),
  bpf: at(321, 280),
  perf_event_open: at(298, 241),
  userfaultfd: at(323, 282),
  kexec_load: at(246, 104),
  kexec_file_load: at(320, 294),
  create_module: at(174),
  get_kernel_syms: at(177),
  query_module: at(178),
  init_module: at(175, 105),
  finit_module: at(313, 273),
  delete_module: at(176, 106),
  reboot: at(169, 142),
  swapon: at(167, 224),
  swapoff: at(168, 225),
  acct: at(163, 89),
  settimeofday: at(164, 170),
  clock_settime: at(227, 112),
  clock_adjtime: at(305, 266),
  adjtimex: at(159, 171),
  sethostname: at(170, 161),
  setdomainname: at(171, 162),
  quotactl: at(179, 60),
  quotactl_fd: at(443, 443),
  syslog: at(103, 116),
  vhangup: at(153, 58),
  iopl: at(172),
  ioperm: at(173),
  uselib: at(134),
  fanotify_init: at(300, 262),
} as const;
