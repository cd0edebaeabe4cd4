import path from 'node:path';
import { type Attempt, attempt, type Check, python, quoted } from './check.ts';
import { SECRET, type World } from './world.ts';

const SYSCALL = { x64: { processVmReadv: 310 }, arm64: { processVmReadv: 270 } } as const;
const numbers = process.arch === 'arm64' ? SYSCALL.arm64 : SYSCALL.x64;

const finds = (text: string): string => `(${text}) 2>/dev/null | grep -aq ${SECRET}`;
export const reads = (file: string): string => finds(`cat ${quoted(file)}`);

const touches: Attempt = attempt('write the project', 'touch fine');

/** Every key, credential and journal file, read and written by each name that it has. */
const files: Check = {
  id: 'state-files',
  place: 'host',
  request: () => ({}),
  works: ({ data }) => [
    touches,
    attempt('read a sample project', `grep -q visible ${quoted(data)}/projects/sample/notes.txt`),
  ],
  attempts: ({ secrets, data, home, project }) => [
    ...secrets.map((file) => attempt(`read ${path.basename(file)}`, reads(file))),
    ...secrets.map((file) => attempt(`append to ${path.basename(file)}`, `echo x >> ${quoted(file)}`)),
    attempt('read through /proc/self/root', reads(`/proc/self/root${data}/private/tokens.json`)),
    attempt('read through a new link', `ln -s ${quoted(data)} d && ${reads(`${project}/d/private/tokens.json`)}`),
    attempt('search the home', finds(`grep -rah . ${quoted(home)}/.local ${quoted(home)}/.config`)),
    attempt('archive the private folder', finds(`tar -cf - -C ${quoted(data)} private`)),
    attempt('list the private folder', `ls -A ${quoted(data)}/private | grep -q .`),
    attempt('make a key', `echo x > ${quoted(data)}/private/keys/new.json`),
    attempt('hard link a key', `ln ${quoted(data)}/private/keys/root.json k && ${reads(`${project}/k`)}`),
    attempt('move the private folder', `mv ${quoted(data)}/private p`),
    attempt('move the data folder', `mv ${quoted(data)} p2`),
    attempt('move the state folder', `mv ${quoted(home)}/.local/state p3`),
  ],
};

/** The running parts: their sockets, variables, files and memory. */
const processes: Check = {
  id: 'state-processes',
  place: 'host',
  request: () => ({}),
  prepare: async (world) => {
    const child = world.service();
    await world.listen();
    world.file('service.pid', String(child.pid));
    return () => child.kill('SIGKILL');
  },
  works: () => [touches],
  attempts: ({ data }) => {
    const socket = `${data}/private/run/s`;
    const connect = `import socket
s = socket.socket(socket.AF_UNIX); s.connect(${JSON.stringify(socket)}); assert s.recv(99)`;
    const read = `import ctypes, sys
class V(ctypes.Structure): _fields_ = [("b", ctypes.c_void_p), ("n", ctypes.c_size_t)]
pid = int(open("service.pid").read())
start = int([l for l in open("/proc/%d/maps" % pid) if "[stack]" in l][0].split("-")[0], 16)
b = ctypes.create_string_buffer(64); l = V(ctypes.cast(b, ctypes.c_void_p).value, 64); r = V(start, 64)
n = ctypes.CDLL(None).syscall(${numbers.processVmReadv}, pid, ctypes.byref(l), 1, ctypes.byref(r), 1, 0)
sys.exit(0 if n > 0 else 1)`;
    return [
      attempt('connect to a socket of ours', python(connect)),
      attempt(
        'connect to it with curl',
        `curl -sS --http0.9 --max-time 5 --unix-socket ${quoted(socket)} http://x/ | grep -q .`,
      ),
      attempt('read variables', finds('cat /proc/$(cat service.pid)/environ')),
      attempt('read variables of everything', finds('cat /proc/[0-9]*/environ')),
      attempt('read an open file', finds('cat /proc/$(cat service.pid)/fd/3')),
      attempt('read the working folder', finds('cat /proc/$(cat service.pid)/cwd/tokens.json')),
      attempt('read through its root', finds(`cat /proc/$(cat service.pid)/root${data}/private/tokens.json`)),
      attempt('see its arguments', "tr '\\0' ' ' < /proc/$(cat service.pid)/cmdline | grep -q 'sleep 300'"),
      attempt('read its memory', python(read)),
      attempt('open its memory', python('open("/proc/%s/mem" % open("service.pid").read(), "r+b")')),
      attempt(
        'trace it',
        python(`import ctypes, os, sys
pid = int(open("service.pid").read()); l = ctypes.CDLL(None)
assert open("/proc/%d/cmdline" % pid).read().startswith("/bin/sleep")
r = l.ptrace(16, pid, None, None); r == 0 and (os.waitpid(pid, 0x40000000), l.ptrace(17, pid, None, None)); sys.exit(0 if r == 0 else 1)`),
      ),
      attempt(
        'change its limits',
        `prlimit --pid $(cat service.pid) --nofile=9 && grep -q 'sleep' /proc/$(cat service.pid)/cmdline`,
      ),
      attempt('kill it', "grep -q 'sleep' /proc/$(cat service.pid)/cmdline && kill -9 $(cat service.pid)"),
    ];
  },
};

/** Code of ours that lies in a writable root. */
const installation = (id: string, at: (world: World) => string): Check => ({
  id,
  place: 'host',
  request: (world) => ({ installation: at(world) }),
  prepare: (world) => {
    world.file(path.join(at(world), 'apps/runner.ts'), 'ours\n');
    world.file(path.join(at(world), 'node_modules/dependency/index.js'), 'ours\n');
    return () => undefined;
  },
  works: (world) => [
    touches,
    attempt('write beside it', `touch ${quoted(path.dirname(path.dirname(at(world))))}/fine`),
  ],
  attempts: (world) => {
    const code = at(world);
    const parent = path.dirname(code);
    return [
      attempt('change the code', `echo x >> ${quoted(code)}/apps/runner.ts`),
      attempt('change a dependency', `echo x >> ${quoted(code)}/node_modules/dependency/index.js`),
      attempt('add a dependency', `mkdir ${quoted(code)}/node_modules/evil`),
      attempt('add node_modules beside the code', `mkdir ${quoted(code)}/apps/node_modules`),
      attempt('change permissions', `chmod 777 ${quoted(code)}/apps/runner.ts`),
      attempt('hard link and write', `ln ${quoted(code)}/apps/runner.ts l && echo x >> l`),
      attempt('exchange the folder', exchange(code, `${parent}/evil`)),
      attempt('move the code', `mv ${quoted(code)} ${quoted(code)}-2 && mv ${quoted(code)}-2 ${quoted(code)}`),
      attempt(
        'move its parent',
        `mv ${quoted(parent)} ${quoted(parent)}-2 && mv ${quoted(parent)}-2 ${quoted(parent)}`,
      ),
      attempt('remove the code', `rm -rf ${quoted(code)}/apps`),
      attempt(
        'remove the parent',
        `rm -rf ${quoted(parent)}; [ ! -e ${quoted(code)}/node_modules/dependency/index.js ]`,
      ),
    ];
  },
});

/** Swaps two folders in one step; the second one is made. */
export const exchange = (one: string, two: string): string =>
  `mkdir -p ${quoted(two)} && ${python(`import ctypes, sys
l = ctypes.CDLL(None)
one, two = ${JSON.stringify(one)}.encode(), ${JSON.stringify(two)}.encode()
r = l.renameat2(-100, one, -100, two, 2)
if r == 0: l.renameat2(-100, one, -100, two, 2)
sys.exit(0 if r == 0 else 1)`)}`;

export const stateChecks: readonly Check[] = [
  files,
  processes,
  installation('installation-in-cache', (world) => world.installation),
  installation('installation-in-temp', ({ temp }) => `${temp}/tools/countersign`),
];
