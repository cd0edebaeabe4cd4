import { createHash } from 'node:crypto';
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { setImmediate as tick } from 'node:timers/promises';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import type { ChangeCall, ToolLimits } from '../work/host-tools.ts';
import { ToolsUnderTest } from './testing/tools-under-test.ts';

const host = new ToolsUnderTest();
let project: string;

beforeEach(() => {
  project = host.project();
});
afterAll(() => host.close());

const inside = (...parts: string[]): string => path.join(project, ...parts);
const text = (name: string): string => readFileSync(inside(name), 'utf8');
const sha = (content: string | Uint8Array): Uint8Array => createHash('sha256').update(content).digest();
const change = (call: ChangeCall, limits: Partial<ToolLimits> = {}) =>
  host.tools.change(call, host.limits(project, limits));
const edit = (name: string, oldText: string, newText: string, limits: Partial<ToolLimits> = {}) =>
  change({ tool: 'edit', args: { path: name, oldText, newText } }, limits);
const write = (name: string, content: string, limits: Partial<ToolLimits> = {}) =>
  change({ tool: 'write', args: { path: name, content } }, limits);
const remove = (name: string, limits: Partial<ToolLimits> = {}) =>
  change({ tool: 'delete', args: { path: name } }, limits);
const rollback = (id: string, name: string, force = false) =>
  change({ tool: 'rollback', args: { path: name, change: id, force } });
const idOf = (answer: Awaited<ReturnType<typeof change>>): string => (answer.ok ? answer.value.change.id : '');
const codeOf = (answer: { ok: boolean; error?: { code: string } }) => answer.error?.code.split('.').at(-1);

describe('edit', () => {
  it('replaces the text, keeps permissions and owner, and answers with the diff and the digests', async () => {
    host.file(inside('run.sh'), '#!/bin/sh\necho one\n', 0o755);
    const answer = await edit('run.sh', 'echo one', 'echo two');
    expect([text('run.sh'), statSync(inside('run.sh')).mode & 0o777]).toEqual(['#!/bin/sh\necho two\n', 0o755]);
    const digests = ['#!/bin/sh\necho one\n', '#!/bin/sh\necho two\n'].map((one) =>
      Buffer.from(sha(one)).toString('hex'),
    );
    expect(answer).toMatchObject({
      ok: true,
      value: { change: { path: inside('run.sh'), before: { digest: digests[0] }, after: { digest: digests[1] } } },
    });
    expect(answer.ok && answer.value.diff).toContain('-echo one\n+echo two\n');
    expect(readdirSync(project)).toEqual(['run.sh']);
  });

  it('keeps byte order mark, UTF-16 and CRLF', async () => {
    const before = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('a\r\nb\r\n', 'utf16le')]);
    host.file(inside('a.txt'), before);
    expect(await edit('a.txt', 'b\n', 'B\nc\n')).toMatchObject({ ok: true });
    expect(readFileSync(inside('a.txt')).subarray(2).toString('utf16le')).toBe('a\r\nB\r\nc\r\n');
    expect([...readFileSync(inside('a.txt')).subarray(0, 2)]).toEqual([0xff, 0xfe]);
  });

  it.each([
    ['not valid UTF-8', Buffer.from([0x61, 0x0a, 0xe9, 0x0a]), 'a', 'tool_failed'],
    ['without the text', 'b\n', 'a', 'tool_failed'],
    ['with the text twice', 'a a\n', 'a', 'tool_failed'],
  ])('leaves a file %s as it is', async (_, content, oldText, code) => {
    host.file(inside('a'), content);
    expect(codeOf(await edit('a', oldText, 'x'))).toBe(code);
    expect(Buffer.compare(readFileSync(inside('a')), Buffer.from(content))).toBe(0);
  });

  it('makes no folder for a file that is not there', async () => {
    expect(codeOf(await edit('no/where', 'a', 'b'))).toBe('tool_failed');
    expect(readdirSync(project)).toEqual([]);
  });

  it('keeps a link and changes what it leads to', async () => {
    host.file(inside('AGENTS.md'), 'old\n');
    symlinkSync('AGENTS.md', inside('CLAUDE.md'));
    expect(await edit('CLAUDE.md', 'old', 'new')).toMatchObject({ ok: true });
    expect([text('AGENTS.md'), lstatSync(inside('CLAUDE.md')).isSymbolicLink()]).toEqual(['new\n', true]);
  });

  it.each([
    ['that changed since the inspection', 'other\n', sha('old\n')],
    ['that came since the inspection', 'other\n', 'absent' as const],
  ])('refuses a file %s and keeps it', async (_, content, expected) => {
    host.file(inside('a'), content);
    for (const answer of [await write('a', 'new', { expected }), await edit('a', 'o', 'x', { expected })]) {
      expect(codeOf(answer)).toBe('changed_since_request');
    }
    expect(text('a')).toBe(content);
  });

  it('refuses a link to nothing, a loop of links and a hard link', async () => {
    symlinkSync(path.join(host.base, 'not-there'), inside('draft'));
    symlinkSync('loop', inside('loop'));
    host.file(inside('one'), 'x');
    linkSync(inside('one'), inside('two'));
    expect([
      codeOf(await write('draft', 'x')),
      codeOf(await write('loop', 'x')),
      codeOf(await write('two', 'y')),
    ]).toEqual(['tool_failed', 'tool_failed', 'tool_failed']);
    expect([readdirSync(host.base).includes('not-there'), text('one')]).toEqual([false, 'x']);
  });

  it('never writes through a folder that becomes a link while it works', async () => {
    const outside = host.folder(`outside-${path.basename(project)}`);
    const victim = host.file(path.join(outside, 'file'), 'safe\n');
    const attack = { on: true };
    const linked = (): boolean => {
      try {
        symlinkSync(outside, inside('way'));
        return true;
      } catch {
        return false;
      }
    };
    const swapping = (async () => {
      while (attack.on) {
        host.folder(path.basename(project), 'way');
        host.file(inside('way', 'file'), 'safe\n');
        await tick();
        renameSync(inside('way'), inside('away'));
        // The tool may make the folder anew in between, which wins this round.
        if (linked()) await tick();
        for (const name of ['way', 'away']) rmSync(inside(name), { recursive: true, maxRetries: 10 });
      }
    })();
    const answers: string[] = [];
    for (let turn = 0; turn < 25; turn += 1) {
      const answer = turn % 2 ? await write('way/file', 'ESCAPED\n') : await edit('way/file', 'safe', 'ESCAPED');
      answers.push(answer.ok ? 'ok' : 'refused');
    }
    attack.on = false;
    await swapping;
    expect([readFileSync(victim, 'utf8'), readdirSync(outside)]).toEqual(['safe\n', ['file']]);
    expect(answers).toContain('refused');
  });
});

describe('delete', () => {
  it('removes one file; refuses folders, links out, protected names, denied and masked paths', async () => {
    const outside = host.file(path.join(host.folder('elsewhere'), 'file'), 'safe');
    mkdirSync(inside('folder'));
    host.file(inside('a'), 'x');
    host.file(inside('b.lock'), 'x');
    symlinkSync(outside, inside('way'));
    const rules = { denyWrite: ['*.lock'] };
    expect([
      codeOf(await remove('folder')),
      codeOf(await remove('b.lock', rules)),
      codeOf(await remove('way')),
    ]).toEqual(['tool_failed', 'private_path', 'private_path']);
    expect(codeOf(await remove('.git/config'))).toBe('private_path');
    expect(await remove('a')).toMatchObject({ ok: true, value: { change: { after: null } } });
    expect([readdirSync(project).sort(), readFileSync(outside, 'utf8')]).toEqual([['b.lock', 'folder', 'way'], 'safe']);
  });
});

describe('search', () => {
  const search = (args: { pattern: string; path?: string; max_results?: number }, denyRead: string[] = []) =>
    host.tools.search(args, host.limits(project, { denyRead }));

  beforeEach(() => {
    host.folder(path.basename(project), 'src');
    host.file(inside('src/a.ts'), 'const needle = 1;\nother\n');
    host.file(inside('.env'), 'needle=secret\n');
    host.file(inside('secret.pem'), 'needle\n');
  });

  it('finds lines, leaves denied files out and says so', async () => {
    const answer = await search({ pattern: 'needle' }, ['.env', path.join(project, 'secret.pem')]);
    expect(answer).toEqual({
      ok: true,
      value: {
        content: 'src/a.ts:1:const needle = 1;\n',
        note: 'left out, because reading is denied: `.env`, `secret.pem`',
      },
    });
  });

  it('stops at the bound and says that there is more', async () => {
    host.file(inside('many'), 'needle\n'.repeat(100_000));
    const answer = await search({ pattern: 'needle', path: 'many', max_results: 3 });
    expect(answer).toMatchObject({ ok: true, value: { note: 'there are more matches; narrow the search' } });
    expect(answer.ok && answer.value.content.split('\n').length).toBe(4);
  });

  it.each([
    ['a pattern that is none', { pattern: '(' }, 'invalid_arguments'],
    ['a denied folder', { pattern: 'x', path: 'src' }, 'private_path'],
    ['a folder that is not there', { pattern: 'x', path: 'nowhere' }, 'tool_failed'],
  ])('refuses %s', async (_, args, code) => {
    expect(codeOf(await search(args, [path.join(project, 'src')]))).toBe(code);
  });

  it('takes a pattern that looks like an option as a pattern', async () => {
    expect(await search({ pattern: '--files' })).toMatchObject({ ok: true, value: { content: '' } });
  });
});

describe('read', () => {
  it('gives lines of a file that is too large as a whole', async () => {
    const line = `${'x'.repeat(99)}\n`;
    writeFileSync(inside('big'), `${line.repeat(20_000)}last\n`);
    const read = (first_line?: number, max_lines?: number) =>
      host.tools.read({ path: 'big', first_line, max_lines }, host.limits(project));
    expect(codeOf(await read())).toBe('tool_failed');
    const found = await read(20_000, 2);
    expect(found.ok && Buffer.from(found.value).toString()).toBe(`${line}last\n`);
  });
});

describe('rollback', () => {
  it('brings back what was there, and can be taken back itself', async () => {
    host.file(inside('a'), 'one\n', 0o750);
    const changed = idOf(await edit('a', 'one', 'two'));
    const back = await rollback(changed, 'a');
    expect([text('a'), back.ok && back.value.change.rollsBack]).toEqual(['one\n', changed]);
    expect(await rollback(idOf(back), 'a')).toMatchObject({ ok: true });
    expect([text('a'), statSync(inside('a')).mode & 0o777]).toEqual(['two\n', 0o750]);
  });

  it('removes a file that was made and makes one again that was deleted, with its permissions', async () => {
    const made = idOf(await write('new', 'x'));
    expect(await rollback(made, 'new')).toMatchObject({ ok: true });
    host.file(inside('old'), 'content', 0o640);
    const gone = idOf(await remove('old'));
    expect(await rollback(gone, 'old')).toMatchObject({ ok: true });
    expect([readdirSync(project), text('old'), statSync(inside('old')).mode & 0o777]).toEqual([
      ['old'],
      'content',
      0o640,
    ]);
  });

  it('keeps later work on other lines, and refuses to replace it on the same ones unless forced', async () => {
    const lines = 'a\nb\nc\nd\ne\n';
    host.file(inside('a'), lines);
    const changed = idOf(await edit('a', 'b\n', 'B\n'));
    host.file(inside('a'), `${text('a')}later\n`);
    expect(await rollback(changed, 'a')).toMatchObject({ ok: true });
    expect(text('a')).toBe(`${lines}later\n`);
    const again = idOf(await edit('a', 'b\n', 'B\n'));
    host.file(inside('a'), text('a').replace('B', 'user'));
    expect(codeOf(await rollback(again, 'a'))).toBe('later_work');
    expect(text('a')).toContain('user');
    const forced = await rollback(again, 'a', true);
    expect([text('a'), await rollback(idOf(forced), 'a')]).toMatchObject([`${lines}later\n`, { ok: true }]);
    expect(text('a')).toContain('user');
  });

  it('refuses a change of another file or another project, and one that is taken back already', async () => {
    host.file(inside('a'), 'one');
    host.file(inside('b'), 'two');
    const changed = idOf(await edit('a', 'one', 'ONE'));
    expect(codeOf(await rollback(changed, 'b'))).toBe('tool_failed');
    const elsewhere = host.project();
    host.file(path.join(elsewhere, 'a'), 'ONE');
    const args = { path: 'a', change: changed };
    expect(codeOf(await host.tools.change({ tool: 'rollback', args }, host.limits(elsewhere)))).toBe('tool_failed');
    await rollback(changed, 'a');
    expect(codeOf(await rollback(changed, 'a'))).toBe('tool_failed');
  });
});
