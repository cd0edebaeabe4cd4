import ipaddr from 'ipaddr.js';

/** A host and port that a call wants to reach, canonical: lower case, A-label, no final dot. */
export interface HostTarget {
  readonly host: string;
  readonly port: number | undefined;
  readonly path: string;
}

/** Lower-cases, converts to A-labels, removes a final dot; undefined if it is not a host. */
export function canonicalHost(raw: string): string | undefined {
  if (raw === '' || raw.length > 1000 || /[\s/@\\?#]/.test(raw)) return undefined;
  try {
    const host = new URL(`http://${raw.includes(':') && !raw.startsWith('[') ? `[${raw}]` : raw}/`).hostname;
    return host.replace(/\.$/, '') || undefined;
  } catch {
    return undefined;
  }
}

/** Parses a URL of a network tool; undefined if it must be refused as malformed. */
export function parseTarget(url: string): HostTarget | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused here
  if (url.length > 65536 || /[\u0000-\u0020\u007f\\]/.test(url)) return undefined;
  try {
    const u = new URL(url);
    if ((u.protocol !== 'http:' && u.protocol !== 'https:') || u.username !== '' || u.password !== '') return undefined;
    if (/^[a-z]+:\/\/[^/?#]*@/i.test(url)) return undefined;
    const host = u.hostname.replace(/\.$/, '');
    if (host === '') return undefined;
    return { host, port: u.port === '' ? (u.protocol === 'https:' ? 443 : 80) : Number(u.port), path: u.pathname };
  } catch {
    return undefined;
  }
}

const METADATA = new Set([
  'ip6-localhost',
  'ip6-loopback',
  'localhost.localdomain',
  'localhost6',
  'metadata',
  'metadata.google.internal',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.azure.internal',
  'metadata.goog',
]);

const embedded = (bytes: readonly number[], at: number, flip = 0): string =>
  bytes
    .slice(at, at + 4)
    .map((b) => b ^ flip)
    .join('.');

/** The IPv4 address that an IPv6 one carries: mapped, compatible, NAT64, 6to4, Teredo. */
function carriedV4(bytes: readonly number[]): string | undefined {
  const zero = (from: number, to: number): boolean => bytes.slice(from, to).every((b) => b === 0);
  const starts = (...wanted: number[]): boolean => wanted.every((b, i) => bytes[i] === b);
  if (zero(0, 10) && bytes[10] === 0xff && bytes[11] === 0xff) return embedded(bytes, 12);
  if (zero(0, 12)) return zero(12, 15) ? undefined : embedded(bytes, 12);
  if (starts(0, 0x64, 0xff, 0x9b) && zero(4, 12)) return embedded(bytes, 12);
  if (starts(0x20, 0x02)) return embedded(bytes, 2);
  return starts(0x20, 0x01, 0, 0) ? embedded(bytes, 12, 0xff) : undefined;
}

/** The IPv4 address that a canonical host in brackets carries; undefined for every other host. */
export function carriedAddress(host: string): string | undefined {
  if (!host.startsWith('[') || !ipaddr.IPv6.isValid(host.slice(1, -1))) return undefined;
  return carriedV4(ipaddr.IPv6.parse(host.slice(1, -1)).toByteArray());
}

function isPrivateV6(text: string): boolean {
  const address = ipaddr.IPv6.parse(text);
  const bytes = address.toByteArray();
  const carried = carriedV4(bytes);
  if (carried !== undefined) return isPrivateAddress(carried);
  return (
    address.range() !== 'unicast' ||
    (bytes[0] === 0xfe && ((bytes[1] ?? 0) & 0xc0) === 0xc0) ||
    ((bytes[0] ?? 0) & 0xe0) !== 0x20
  );
}

function isPrivateAddress(text: string): boolean {
  if (text.includes(':')) return isPrivateV6(text);
  const address = ipaddr.IPv4.parse(text);
  const [a, b, c] = address.octets;
  return (
    address.range() !== 'unicast' ||
    a === 0 ||
    (a ?? 0) >= 224 ||
    (a === 198 && (b === 18 || b === 19)) ||
    (a === 192 && b === 0 && (c === 0 || c === 2)) ||
    (a === 192 && b === 88 && c === 99)
  );
}

/** Whether a host is loopback, private, reserved, a cloud-metadata name, or not parsable at all. */
export function isPrivateHost(raw: string): boolean {
  const host = canonicalHost(raw);
  if (host === undefined) return true;
  if (host === 'localhost' || host.endsWith('.localhost') || METADATA.has(host)) return true;
  try {
    if (host.startsWith('[')) return isPrivateV6(host.slice(1, -1));
    if (ipaddr.IPv4.isValidFourPartDecimal(host)) return isPrivateAddress(host);
    return false;
  } catch {
    return true;
  }
}

/** A compiled host pattern: exact, `*.name`, optional port and path prefix. */
export interface HostPattern {
  readonly source: string;
  /** The host it names or, with `wild`, whose sub-domains it names; undefined for every host. */
  readonly host: string | undefined;
  readonly wild: boolean;
  matches(target: HostTarget, everyPort: boolean): boolean;
}

/** Percent-encodings of characters that need none, decoded, and doubled slashes made one: what many servers take a path for. */
function plainPath(path: string): string {
  const decoded = path.replace(/%([0-9a-f]{2})/gi, (all, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16));
    return /[\w.~-]/.test(character) ? character : all;
  });
  return decoded.replace(/\/{2,}/g, '/');
}

/** An encoded slash, backslash or percent sign: servers differ in what they take such a path for. */
const AMBIGUOUS = /%(2f|5c|25)|\\/i;

/** Whether a path lies under a prefix; in doubt it does for what tightens, and does not for what allows. */
function isUnder(path: string, prefix: string, tight: boolean): boolean {
  const under = (text: string): boolean =>
    text === prefix || text.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);
  if (!tight) return under(path) && !AMBIGUOUS.test(path);
  return under(path) || under(plainPath(path.replace(/%(2f|5c)/gi, '/')));
}

/** Compiles a host pattern; undefined if it is not one. */
export function compileHostPattern(source: string): HostPattern | undefined {
  if (source === '*' || source === '**') return { source, host: undefined, wild: true, matches: () => true };
  const bare = source.replace(/^https?:\/\//i, '');
  const slash = bare.indexOf('/');
  const authority = slash === -1 ? bare : bare.slice(0, slash);
  const prefix = slash === -1 ? '' : bare.slice(slash).replace(/\*+$/, '');
  const portMatch = /^(.*?):(\d{1,5})$/.exec(authority);
  const bracketless =
    portMatch !== null &&
    (authority.startsWith('[') ? (portMatch[1] ?? '').endsWith(']') : !(portMatch[1] ?? '').includes(':'));
  const name = bracketless ? (portMatch?.[1] ?? '') : authority;
  const port = bracketless ? Number(portMatch?.[2]) : undefined;
  const wild = name.startsWith('*.');
  const host = canonicalHost(wild ? name.slice(2) : name);
  if (host === undefined || host.includes('*')) return undefined;
  if (wild && (host.startsWith('[') || ipaddr.IPv4.isValid(host))) return undefined;
  return {
    source,
    host,
    wild,
    matches: (target, everyPort) => {
      const named = wild ? target.host.endsWith(`.${host}`) : target.host === host;
      const ported =
        port === undefined
          ? everyPort || target.port === undefined || target.port === 443 || target.port === 80
          : port === target.port || (everyPort && target.port === undefined);
      return named && ported && (prefix === '' || isUnder(target.path, prefix, everyPort));
    },
  };
}
