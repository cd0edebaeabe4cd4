import { type Attempt, attempt, type Check, python, quoted } from './check.ts';

/** Address that stands for the internet, and what is served there and elsewhere. */
export const PUBLIC = '93.184.216.34';
export const METADATA = '169.254.169.254';
export const ANSWER = { public: 'ANSWER-OF-A-PUBLIC-HOST', private: 'ANSWER-OF-A-PRIVATE-HOST' } as const;
export const UDP_PORT = 5_454;

/** Addresses by name, one list for each question; the last one stays. */
export const ZONE: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'good.example': [[PUBLIC]],
  'unlisted.test': [[PUBLIC]],
  'inner.example': [['127.0.0.1']],
  '127.0.0.1.nip.example': [['127.0.0.1']],
  'link-local.example': [[METADATA]],
  'mixed.example': [[PUBLIC, '127.0.0.1']],
  'six.example': [['::1']],
  'mapped.example': [['::ffff:127.0.0.1']],
  'rebind.example': [[PUBLIC], ['127.0.0.1']],
  'metadata.google.internal': [[METADATA]],
};

const HOSTS = ['*.example', '*', '*.internal', 'localhost'];
const PROXY = '127.0.0.1:3128';

const touches: Attempt = attempt('write the project', 'touch fine');
const fetches = (options: string, url: string, answer: string = ANSWER.private): string =>
  `curl -sS --max-time 8 ${options} ${quoted(url)} 2>/dev/null | grep -q ${answer}`;
const web = (url: string, options = ''): string => fetches(`-x http://${PROXY} ${options}`, url);
const tunnel = (url: string): string => fetches(`-p -x http://${PROXY}`, url);
const socks = (url: string): string => fetches(`-x socks5h://${PROXY}`, url);

const NAMES = ['inner.example', '127.0.0.1.nip.example', 'link-local.example', 'six.example', 'mapped.example'];
const SPELLINGS = ['127.0.0.1', '2130706433', '0x7f.1', '127.1', '0.0.0.0', '[::1]', '[::ffff:127.0.0.1]', METADATA];

/** Through the proxy: what is private stays out of reach, by every name and spelling. */
const throughProxy: Check = {
  id: 'networked-proxy',
  place: 'network',
  request: () => ({ profile: 'networked', hosts: HOSTS }),
  works: () => [
    touches,
    attempt('reach a listed host', fetches(`-x http://${PROXY}`, 'http://good.example/', ANSWER.public)),
    attempt('reach a listed host by a tunnel', fetches(`-p -x http://${PROXY}`, 'http://good.example/', ANSWER.public)),
    attempt('reach a listed host by SOCKS', fetches(`-x socks5h://${PROXY}`, 'http://good.example/', ANSWER.public)),
  ],
  attempts: () => [
    ...[...NAMES, 'localhost', 'metadata.google.internal'].flatMap((name) => [
      attempt(`ask for ${name}`, web(`http://${name}/`)),
      attempt(`tunnel to ${name}`, tunnel(`http://${name}/`)),
      attempt(`SOCKS to ${name}`, socks(`http://${name}/`)),
    ]),
    ...SPELLINGS.flatMap((address) => [
      attempt(`ask for ${address}`, web(`http://${address}/`)),
      attempt(`tunnel to ${address}`, tunnel(`http://${address}/`)),
      attempt(`SOCKS to ${address}`, socks(`http://${address}/`)),
    ]),
    attempt('follow a redirect', web('http://good.example/away', '-L')),
    attempt('follow a redirect to a name', web('http://good.example/away-by-name', '-L')),
    attempt('follow a redirect in a tunnel', fetches(`-L -p -x http://${PROXY}`, 'http://good.example/away')),
    attempt(
      'a name of which one address is private',
      `${web('http://mixed.example/')} || ${fetches(`-x http://${PROXY}`, 'http://mixed.example/', ANSWER.public)}`,
    ),
    attempt('a name that moves', `${web('http://rebind.example/')}; ${web('http://rebind.example/')}`),
    attempt('a name in front of the address', web('http://good.example@127.0.0.1/')),
  ],
};

const socket = (text: string): string =>
  python(`import socket, struct
${text}`);

/** Beside the proxy there is nothing. */
const besideProxy: Check = {
  id: 'networked-beside-proxy',
  place: 'network',
  request: () => ({ profile: 'networked', hosts: ['good.example'] }),
  works: () => [
    touches,
    attempt('reach a listed host', fetches(`-x http://${PROXY}`, 'http://good.example/', ANSWER.public)),
  ],
  attempts: () => [
    attempt('a host that is not listed', fetches(`-x http://${PROXY}`, 'http://unlisted.test/', ANSWER.public)),
    attempt(
      'another port of a listed host',
      fetches(`-p -x http://${PROXY}`, 'http://good.example:8081/', ANSWER.public),
    ),
    attempt('an address that is not listed', fetches(`-x http://${PROXY}`, `http://${PUBLIC}/`, ANSWER.public)),
    attempt(
      'a host that is not listed by SOCKS',
      fetches(`-x socks5h://${PROXY}`, 'http://unlisted.test/', ANSWER.public),
    ),
    attempt('an address by SOCKS', fetches(`-x socks5://${PROXY}`, `http://${PUBLIC}/`, ANSWER.public)),
    ...[PUBLIC, '127.0.0.1', METADATA].map((address) =>
      attempt(
        `${address} directly`,
        `${fetches("--noproxy '*'", `http://${address}/`)} || ${fetches("--noproxy '*'", `http://${address}/`, ANSWER.public)}`,
      ),
    ),
    attempt('IPv6 directly', fetches("--noproxy '*'", 'http://[::1]/')),
    attempt('look a name up', socket('socket.getaddrinfo("good.example", 80)')),
    attempt(
      'UDP to the resolver',
      socket(`s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
s.sendto(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4good\\7example\\0\\0\\1\\0\\1", ("127.0.0.1", 53)); assert s.recv(512)`),
    ),
    attempt(
      'UDP to a service',
      socket(`s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
s.sendto(b"x", ("${PUBLIC}", ${UDP_PORT})); assert s.recv(99)`),
    ),
    attempt(
      'a raw ICMP message',
      socket(`s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); s.settimeout(5)
m = struct.pack("!BBHHH", 8, 0, 0xf7fe, 0, 1); s.sendto(m, ("${PUBLIC}", 0)); assert s.recv(99)`),
    ),
    attempt('a packet socket', socket('socket.socket(socket.AF_PACKET, socket.SOCK_RAW)')),
    attempt('an AF_VSOCK socket', socket('socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)')),
    attempt('a network of its own with another way out', 'unshare --net true'),
    attempt('an address of its own', 'ip addr add 198.51.100.7/32 dev lo'),
    attempt('a route', `ip route add 198.51.100.0/24 dev lo`),
    attempt(
      'take the port of the proxy',
      socket(
        's = socket.socket(); s.bind(("127.0.0.1", 3129)); s.listen(); socket.create_connection(("127.0.0.1", 3129)); socket.create_connection(("127.0.0.1", 80), 5)',
      ),
    ),
  ],
};

/** Every other profile has a network without anybody in it. */
const noNetwork: Check = {
  id: 'no-network',
  place: 'network',
  request: () => ({}),
  works: () => [
    touches,
    attempt(
      'use its own loopback',
      socket('s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); socket.create_connection(s.getsockname(), 5)'),
    ),
  ],
  attempts: () => [
    ...[PUBLIC, '127.0.0.1', METADATA, '[::1]'].map((address) =>
      attempt(
        address,
        `${fetches("--noproxy '*'", `http://${address}/`)} || ${fetches("--noproxy '*'", `http://${address}/`, ANSWER.public)}`,
      ),
    ),
    attempt('a proxy of the host', fetches(`-x http://${PROXY}`, 'http://good.example/', ANSWER.public)),
    attempt('a name', socket('socket.getaddrinfo("good.example", 80)')),
    attempt(
      'UDP',
      socket(`s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
s.sendto(b"x", ("${PUBLIC}", ${UDP_PORT})); assert s.recv(99)`),
    ),
  ],
};

export const networkChecks: readonly Check[] = [throughProxy, besideProxy, noNetwork];
