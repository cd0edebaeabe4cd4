import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../../..');
const read = (file: string): string => readFileSync(path.join(root, 'deploy', file), 'utf8');
/** Where the unit files expect the code. */
const INSTALLED = '/opt/countersign/';

function parseUnit(text: string): Map<string, Map<string, string[]>> {
  const sections = new Map<string, Map<string, string[]>>();
  let section: Map<string, string[]> | undefined;
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const name = /^\[(\w+)\]$/.exec(line)?.[1];
    if (name) {
      section = new Map();
      sections.set(name, section);
      continue;
    }
    const [, key, value] = /^([A-Z][A-Za-z]+)=(.+)$/.exec(line) ?? [];
    if (!section || !key || value === undefined) throw new TypeError(`line ${index + 1} is no setting: ${line}`);
    section.set(key, [...(section.get(key) ?? []), value]);
  }
  return sections;
}

type Plist = string | number | boolean | Plist[] | { [key: string]: Plist };

/** A reader of the property lists that this project writes; anything else throws. */
function parsePlist(text: string): Plist {
  const tokens = [...text.replace(/<\?xml[^>]*\?>|<!DOCTYPE[^>]*>|<!--[\s\S]*?-->/g, '').matchAll(/<[^>]+>|[^<>]+/g)]
    .map(([token]) => token.trim())
    .filter(Boolean);
  const next = (expected?: string): string => {
    const token = tokens.shift() ?? '';
    if (expected !== undefined && token !== expected)
      throw new TypeError(`\`${expected}\` expected, \`${token}\` found`);
    return token;
  };
  const leaf = (close: string): string => {
    const content = next();
    next(close);
    return content;
  };
  const value = (open: string): Plist => {
    if (open === '<string>') return leaf('</string>');
    if (open === '<integer>') return Number(leaf('</integer>'));
    if (open === '<true/>' || open === '<false/>') return open === '<true/>';
    if (open === '<array>') {
      const items: Plist[] = [];
      for (let token = next(); token !== '</array>'; token = next()) items.push(value(token));
      return items;
    }
    if (open !== '<dict>') throw new TypeError(`\`${open}\` is not expected`);
    const entries: [string, Plist][] = [];
    for (let token = next(); token !== '</dict>'; token = next()) {
      if (token !== '<key>') throw new TypeError(`a key is expected, \`${token}\` found`);
      entries.push([leaf('</key>'), value(next())]);
    }
    return Object.fromEntries(entries);
  };
  next('<plist version="1.0">');
  const parsed = value(next());
  next('</plist>');
  if (tokens.length > 0) throw new TypeError('text after the end');
  return parsed;
}

const fromHere = (installed: string): string => path.join(root, installed.slice(INSTALLED.length));

test('the systemd unit parses, names programs that exist, and holds what hardens it', () => {
  const unit = parseUnit(read('systemd/countersign-runner.service'));
  expect([...unit.keys()]).toEqual(['Unit', 'Service', 'Install']);
  const service = unit.get('Service') ?? new Map<string, string[]>();
  const command = (service.get('ExecStart')?.[0] ?? '').split(' ');
  expect(command.every((file) => file.startsWith(INSTALLED) && existsSync(fromHere(file)))).toBe(true);
  const hardened = {
    NoNewPrivileges: 'yes',
    ProtectSystem: 'full',
    PrivateTmp: 'yes',
    UMask: '0077',
    KillMode: 'mixed',
    LimitCORE: '0',
    CapabilityBoundingSet: 'CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_KILL',
  };
  expect(Object.fromEntries(Object.keys(hardened).map((key) => [key, service.get(key)?.[0]]))).toEqual(hardened);
  const breaksTheSandbox =
    /^(ProtectKernelTunables|ProtectKernelLogs|ProtectProc|ProcSubset|RestrictNamespaces|PrivateUsers)$/;
  expect([...service.keys()].filter((key) => breaksTheSandbox.test(key))).toEqual([]);
});

test('the launchd property list parses, restarts the runner and names an entry that exists', () => {
  const plist = parsePlist(read('launchd/countersign.runner.plist')) as Record<string, Plist>;
  expect(plist).toMatchObject({ Label: 'countersign.runner', KeepAlive: true, RunAtLoad: true, Umask: 0o077 });
  const [, entry = ''] = plist.ProgramArguments as string[];
  expect(existsSync(fromHere(entry))).toBe(true);
  expect(plist.HardResourceLimits).toMatchObject({ Core: 0 });
});

test.each(['<plist version="1.0"><dict><string>x</string></dict></plist>', '<plist version="1.0"><array></plist>'])(
  'a property list that is not well formed is refused: %s',
  (text) => {
    expect(() => parsePlist(text)).toThrow(TypeError);
  },
);
