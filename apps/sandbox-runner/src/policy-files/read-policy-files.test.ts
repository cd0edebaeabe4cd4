import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { PolicyFile } from '@countersign/protocol';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { sandboxedTools } from '../launcher/sandboxed-tools.ts';
import { isRoot, ToolsUnderTest } from '../launcher/testing/tools-under-test.ts';

const host = new ToolsUnderTest();
let project: string;
let folder: string;

beforeEach(() => {
  project = host.project();
  folder = host.folder(path.basename(project), '.countersign');
});
afterAll(() => host.close());

async function filesOf(where = project): Promise<readonly PolicyFile[]> {
  const found = await host.tools.policyFiles(where);
  if (!found.ok) throw new Error(found.error.message);
  return found.value;
}
const problemOf = async () => (await filesOf()).map(({ layer, problem, content }) => [layer, problem, content.length]);
const file = (layer: string) => path.join(folder, `permissions.${layer}.json`);

describe('permission files', () => {
  it('come with their exact bytes, one for each layer that is there', async () => {
    expect(await filesOf()).toEqual([]);
    host.file(file('project'), '{"mode":"strict"}');
    host.file(file('local'), Buffer.from([0xff, 0xfe]));
    const found = await filesOf();
    expect(found.map(({ layer, path: at, problem }) => [layer, at, problem])).toEqual([
      ['project', file('project'), ''],
      ['local', file('local'), ''],
    ]);
    expect(found.map(({ content }) => Buffer.from(content).toString('hex'))).toEqual([
      Buffer.from('{"mode":"strict"}').toString('hex'),
      'fffe',
    ]);
  });

  it('are not followed through a link, in the file or in its folder', async () => {
    const elsewhere = host.folder('elsewhere');
    host.file(path.join(elsewhere, 'permissions.project.json'), '{}');
    symlinkSync(path.join(elsewhere, 'permissions.project.json'), file('project'));
    expect(await problemOf()).toEqual([['project', expect.stringContaining('is a link'), 0]]);
    rmSync(folder, { recursive: true });
    symlinkSync(elsewhere, folder);
    expect(await problemOf()).toEqual([
      ['project', expect.stringContaining('lies in a link'), 0],
      ['local', expect.stringContaining('lies in a link'), 0],
    ]);
  });

  it('are refused at once when they are a pipe, a folder, or too large', async () => {
    execFileSync('mkfifo', [file('project')]);
    mkdirSync(file('local'));
    expect(await problemOf()).toEqual([
      ['project', 'is no plain file', 0],
      ['local', 'is no plain file', 0],
    ]);
    rmSync(file('project'));
    writeFileSync(file('project'), '');
    truncateSync(file('project'), 1_073_741_824);
    expect((await problemOf())[0]).toEqual(['project', 'is over 65536 bytes', 0]);
  });

  it('of a project that is reached through a link are not read', async () => {
    host.file(file('project'), '{}');
    const link = path.join(host.base, 'link');
    symlinkSync(project, link);
    expect(await host.tools.policyFiles(link)).toMatchObject({
      ok: false,
      error: { code: 'countersign.runner.bad_root' },
    });
  });
});

describe('the file of the user', () => {
  it('is told apart when the account of commands could have written it', async () => {
    host.folder('home', '.countersign');
    host.file(path.join(host.home, '.countersign/permissions.user.json'), '{}');
    expect(await filesOf()).toMatchObject([{ layer: 'user', agentWritable: true }]);
    rmSync(path.join(host.home, '.countersign'), { recursive: true });
  });

  it.runIf(isRoot)('counts as the own word of the user only when every folder above it is safe too', async () => {
    const home = mkdtempSync('/var/lib/countersign-home-');
    chmodSync(home, 0o755);
    mkdirSync(path.join(home, '.countersign'));
    const name = path.join(home, '.countersign/permissions.user.json');
    writeFileSync(name, '{}');
    const runAs = { uid: 61184, gid: 61184, home };
    const tools = sandboxedTools({ runAs, installation: path.resolve(import.meta.dirname, '../../../..') });
    const isWritable = async () => {
      const found = await tools.policyFiles(project);
      return found.ok ? found.value.map(({ agentWritable }) => agentWritable) : found.error;
    };
    try {
      expect(await isWritable()).toEqual([false]);
      chmodSync(name, 0o666);
      expect(await isWritable()).toEqual([true]);
      chmodSync(name, 0o644);
      chownSync(home, 61184, 61184);
      expect(await isWritable()).toEqual([true]);
    } finally {
      await tools.close();
      rmSync(home, { recursive: true });
    }
  });
});
