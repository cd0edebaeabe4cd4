import { describe, expect, it } from 'vitest';
import {
  compileCommandPattern,
  compileHostPattern,
  compilePathGlob,
  findSuspicious,
  isPrivateHost,
  parseTarget,
} from './index.ts';

const base = { project: '/p', cwd: '/p', home: '/h' };

describe('patterns', () => {
  it('confines a star beside a slash and refuses dot-dot in an allow', () => {
    const p = compileCommandPattern('mkdir -p /tmp/work-*');
    expect(p.matchesAllow('mkdir -p /tmp/work-1/a')).toBe(true);
    expect(p.matchesAllow('mkdir -p /tmp/work-/../x')).toBe(false);
    expect(p.matchesAllow('mkdir -p /tmp/work-1 /etc')).toBe(false);
  });
  it('covers the bare command and extra arguments', () => {
    expect(compileCommandPattern('npm test *').matchesAllow('npm test')).toBe(true);
    expect(compileCommandPattern('npm publish').matchesStrict('npm publish --tag x')).toBe(true);
    expect(compileCommandPattern('npm publish').matchesStrict('npm publish-docs')).toBe(false);
    expect(compileCommandPattern('a\\*b').matchesStrict('axb')).toBe(false);
  });
  it('matches paths by segment', () => {
    expect(compilePathGlob('src/*', base).matches('/p/src/a/b')).toBe(false);
    expect(compilePathGlob('**/x', base).matches('/p/x')).toBe(true);
    expect(compilePathGlob('d/**', base).matches('/p/d')).toBe(true);
    expect(compilePathGlob('*.env', base).matches('/p/a/.env')).toBe(true);
    expect(compilePathGlob('a/[id]/x', base).matches('/p/a/i/x')).toBe(false);
  });
  it.each([
    '127.1',
    '2130706433',
    '0177.0.0.1',
    '0x7f.1',
    '[::1]',
    '[fec0::1]',
    '[2002:7f00:1::]',
    'a.localhost',
    '198.18.0.1',
    '192.0.2.1',
    'a b',
    '[2001:db8::1]',
  ])('treats %s as private', (host) => expect(isPrivateHost(host)).toBe(true));
  it.each(['example.com', '8.8.8.8', '[2606:4700::1111]'])('treats %s as public', (host) =>
    expect(isPrivateHost(host)).toBe(false),
  );
  it('compares canonical hosts and ports', () => {
    const t = parseTarget('https://API.Example.COM.:9999/');
    expect(t?.host).toBe('api.example.com');
    const p = compileHostPattern('api.example.com');
    expect(t && p?.matches(t, false)).toBe(false);
    expect(t && p?.matches(t, true)).toBe(true);
    expect(parseTarget('https://a@b/')).toBeUndefined();
  });
  it('flags invisible characters but not emoji joiners', () => {
    expect(findSuspicious('a\u200bb')).toBe('U+200B');
    expect(findSuspicious('👩‍💻 ok\n\t')).toBeUndefined();
  });
});
