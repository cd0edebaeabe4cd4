import { type Attempt, attempt, type Check, python, systemCall } from './check.ts';
import { SECRET } from './world.ts';

const touches: Attempt = attempt('write the project', 'touch fine');
const isArm = process.arch === 'arm64';
const ioUringSetup = 425;
const [addKey, keyctl, ptrace, cloneCall] = isArm ? [217, 219, 117, 220] : [248, 250, 101, 56];
const NEW_USER = 0x10000000;

const SETTINGS = [
  ...['kernel/core_pattern', 'kernel/modprobe', 'kernel/printk', 'vm/drop_caches', 'vm/overcommit_memory'],
  ...['fs/file-max', 'kernel/randomize_va_space', 'kernel/yama/ptrace_scope'],
].map((name) => `/proc/sys/${name}`);

/** Settings of the kernel, its keyrings, its newer doors. */
const kernel: Check = {
  id: 'kernel',
  place: 'host',
  request: () => ({}),
  works: () => [touches],
  attempts: () => [
    ...SETTINGS.map((file) =>
      attempt(`open ${file} for writing`, `[ -e ${file} ] && python3 -c 'open("${file}", "r+b")'`, {
        dull: 'settings of the whole kernel belong to root of the host',
      }),
    ),
    attempt('write a setting of its own network', 'python3 -c \'open("/proc/sys/net/ipv4/ip_forward", "r+b")\''),
    attempt('write below /sys', 'python3 -c \'open("/sys/kernel/mm/transparent_hugepage/enabled", "r+b")\'', {
      dull: 'belongs to root of the host',
    }),
    attempt('add a key', systemCall(addKey, 'b"user"', 'b"escape"', 'b"x"', 1, -5)),
    attempt('join a keyring', systemCall(keyctl, 1, 'b"escape"', 0, 0, 0)),
    attempt('read the session keyring', systemCall(keyctl, 0, -3, 0, 0, 0)),
    attempt(
      'type into its terminal',
      python(`import fcntl, os, pty, sys, termios
pid, master = pty.fork()
if pid == 0:
    try: fcntl.ioctl(0, termios.TIOCSTI, b"x"); os._exit(0)
    except OSError: os._exit(1)
sys.exit(0 if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 else 1)`),
    ),
    attempt('open /dev/tty', 'exec 3<>/dev/tty', { dull: 'the suite itself has no terminal' }),
    attempt(
      'set up io_uring',
      python(`import ctypes, sys
b = ctypes.create_string_buffer(240); sys.exit(0 if ctypes.CDLL(None).syscall(${ioUringSetup}, 4, b) >= 0 else 1)`),
    ),
    attempt('make a user namespace', 'unshare --user true'),
    attempt('make one with root in it', 'unshare --user --map-root-user --mount true'),
    attempt(
      'clone into a user namespace',
      python(`import ctypes, os, sys
r = ctypes.CDLL(None).syscall(${cloneCall}, ${NEW_USER + 17}, 0, 0, 0, 0)
if r == 0: os._exit(0)
sys.exit(0 if r > 0 else 1)`),
    ),
    attempt(
      'enter another namespace',
      python(`import ctypes, os, sys
sys.exit(0 if ctypes.CDLL(None).setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0) == 0 else 1)`),
    ),
    attempt('use an inherited descriptor', `cat <&9 | grep -q INHERITED`),
    attempt('find an inherited descriptor', '[ "$(ls /proc/self/fd | wc -l)" -gt 4 ]'),
    attempt('raise its limits', '[ "$(ulimit -H -c)" != 0 ]'),
    attempt('mount', 'mkdir -p m && mount -t tmpfs none m && umount m'),
    attempt('make a device', 'mknod null c 1 3', { dull: 'a user namespace makes no devices' }),
    attempt('change the name of the host', 'hostname escape'),
  ],
};

const marker = 'escape-beside-marker';

/** In the arguments of the other command, and of nothing that looks for it. */
const BESIDE = python(`import ctypes, os, socket, time # escape-beside-process
shm = open("/dev/shm/${marker}", "w"); shm.write("${SECRET}"); shm.flush()
l = ctypes.CDLL(None); l.shmget(0x5ec, 4096, 0o1666)
t = socket.socket(); t.bind(("127.0.0.1", 42422)); t.listen()
a = socket.socket(socket.AF_UNIX); a.bind("\\0${marker}"); a.listen()
open("beside-up", "w")
end = time.time() + 60
while not os.path.exists("beside-end") and time.time() < end: time.sleep(0.02)
os.unlink("/dev/shm/${marker}")`);

/** Two commands of one account at once. */
const beside: Check = {
  id: 'runs-beside',
  place: 'host',
  request: () => ({ unixSockets: 'mask' }),
  beside: () => `export BESIDE_TOKEN=${SECRET}; ${BESIDE}`,
  works: () => [touches],
  attempts: () => {
    const find = "$(grep -la 'escape-beside-proces[s]' /proc/[0-9]*/cmdline 2>/dev/null | tail -1 | tr -dc 0-9)";
    const one = (text: string) => `p=${find}; [ -n "$p" ] && ${text}`;
    return [
      attempt('see the other command', one('[ -d /proc/$p ]')),
      attempt(
        'read its variables',
        `cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q ^BESIDE_TOKEN=${SECRET}`,
      ),
      attempt('look into its root', one('ls /proc/$p/root/ | grep -q .')),
      attempt('open its memory', one("python3 -c \"open('/proc/$p/mem', 'r+b')\"")),
      attempt(
        'trace it',
        one(
          `python3 -c "import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).syscall(${ptrace}, 0x4206, $p, 0, 0) == 0 else 1)"`,
        ),
      ),
      attempt('read its shared memory', `grep -q ${SECRET} /dev/shm/${marker}`),
      attempt(
        'attach its System V segment',
        python('import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).shmget(0x5ec, 4096, 0) >= 0 else 1)'),
      ),
      attempt('connect to its port', python('import socket; socket.create_connection(("127.0.0.1", 42422), 5)')),
      attempt(
        'connect to its abstract socket',
        python(`import socket; socket.socket(socket.AF_UNIX).connect("\\0${marker}")`),
      ),
      attempt('kill it', one('kill -9 $p')),
    ];
  },
};

export const kernelChecks: readonly Check[] = [kernel, beside];
