import { spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METADATA, PUBLIC } from './own/network-checks.ts';

type Finding = {
  readonly check: string;
  readonly name: string;
  readonly kind: 'attempt' | 'works';
  readonly went: boolean;
  readonly dull: boolean;
};

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, '../..');
const isRoot = process.getuid?.() === 0;
const uid = isRoot ? 61184 : (process.getuid?.() ?? 0);
const gid = isRoot ? 61184 : (process.getgid?.() ?? 0);
const base = mkdtempSync('/var/tmp/cs-escape-');
const DROP = ['--clear-groups', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all', '--pdeathsig=KILL'];
const UNSHARE = ['/usr/bin/unshare', '--user', '--map-root-user', '--mount', '--net'];
const NETWORK = [path.join(here, 'own/network.sh'), PUBLIC, METADATA];
/** Without a sandbox nothing that is tried may reach this host. */
const ISOLATED = [...UNSHARE, '--pid', '--ipc', '--uts', '--fork', '--kill-child', '--mount-proc', ...NETWORK];

beforeAll(() => chmodSync(base, 0o755));
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** What went through of what `own/run.ts` tries, as an ordinary account that also inherits descriptor 9. */
async function findings(mode: 'sandboxed' | 'bare', place: string, wrapper: readonly string[]): Promise<Finding[]> {
  const home = path.join(
    base,
    `${mode}-${place}`.replace(/[a-z]+/g, ([first = '']) => first),
  );
  mkdirSync(home);
  chownSync(home, uid, gid);
  const report = path.join(home, 'report.json');
  const inherited = path.join(home, 'inherited');
  writeFileSync(inherited, 'INHERITED');
  const drop = isRoot ? ['/usr/bin/setpriv', `--reuid=${uid}`, `--regid=${gid}`, ...DROP, '--'] : [];
  const inherit = ['/bin/sh', '-c', 'exec 9<"$1"; shift; exec "$@"', 'sh', inherited];
  const run = [process.execPath, path.join(here, 'own/run.ts'), mode, place, report];
  const [program, ...rest] = [...drop, ...wrapper, ...inherit, ...run] as [string, ...string[]];
  const PATH = `${path.join(root, 'node_modules/.bin')}:/usr/local/bin:/usr/bin:/bin`;
  const env = { HOME: home, PATH, LANG: 'C.UTF-8', ...(process.env.ONLY ? { ONLY: process.env.ONLY } : {}) };
  const child = spawn(program, rest, { cwd: home, env, stdio: ['ignore', 'inherit', 'inherit'] });
  await new Promise((resolve) => child.once('close', resolve));
  return JSON.parse(readFileSync(report, 'utf8')) as Finding[];
}

const named = (all: readonly Finding[]): string[] => all.map(({ check, name }) => `${check}: ${name}`);

describe("our own checks of the sandbox's wall", () => {
  it('nothing that is tried inside goes through, and ordinary work goes on', async () => {
    const both = [findings('sandboxed', 'host', []), findings('sandboxed', 'network', [...UNSHARE, ...NETWORK])];
    const all = (await Promise.all(both)).flat();
    expect(named(all.filter(({ kind, went }) => kind === 'attempt' && went))).toEqual([]);
    expect(named(all.filter(({ kind, went }) => kind === 'works' && !went))).toEqual([]);
    expect(all.length).toBeGreaterThan(250);
  }, 300_000);

  it('bite: without a sandbox everything goes through that an ordinary account can do at all', async () => {
    const all = await findings('bare', 'all', ISOLATED);
    expect(named(all.filter(({ went, dull }) => !went && !dull))).toEqual([]);
  }, 300_000);
});
