import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CommandUnderTest } from '../sandbox/testing/command-under-test.ts';

const under = new CommandUnderTest();
const server = createServer((request, response) => {
  if (request.url === '/away') response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data' });
  response.end('ORIGIN');
});
let target = '';

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  under.close();
});

const networked = (text: string) => under.shell(under.project(), text, ['--profile', 'networked', '--host', target]);

describe('the profile networked', () => {
  it('reaches listed hosts through the proxy by HTTP and SOCKS, and follows no redirect to a private one', async () => {
    const curl = 'curl -sS --max-time 10';
    const text = `${curl} http://${target}/; echo; ${curl} -x socks5h://127.0.0.1:3128 http://${target}/; echo; ${curl} -p http://${target}/; echo; ${curl} -L -o /dev/null -w '%{http_code}' http://${target}/away`;
    const { stdout, stderr } = await networked(text);
    expect(stdout).toBe('ORIGIN\nORIGIN\nORIGIN\n403');
    expect(stderr).toContain('network: `169.254.169.254:80` is not among the allowed hosts');
  });

  it('has no other way out: without the variables, by address, by name, by another socket family', async () => {
    const tries = [
      `curl -sS --noproxy '*' http://${target}/`,
      `env -i /usr/bin/curl -sS http://${target}/`,
      `bash -c 'exec 3<>/dev/tcp/${target.replace(':', '/')}'`,
      `python3 -c 'import socket; socket.socket(socket.AF_UNIX)'`,
      `python3 -c 'import socket; socket.getaddrinfo("example.com", 443)'`,
      'unshare -n true',
    ];
    const { stdout } = await networked(
      `${tries.map((text) => `(${text}) >/dev/null 2>&1 && echo ESCAPED; `).join('')}true`,
    );
    expect(stdout).toBe('');
  });

  it('leaves the command no channel, no descriptor and no variable of the bridge, and its files read-only', async () => {
    const text =
      'ls /proc/self/fd | tr "\\n" " "; env | grep -c NODE_CHANNEL; cat /proc/*/comm | grep -c node; ' +
      '(echo x > /dev/countersign/bridge.mjs) 2>/dev/null && echo ESCAPED; rm -f /dev/countersign/node 2>/dev/null && echo ESCAPED; true';
    const { stdout } = await networked(text);
    expect(stdout).toBe('0 1 2 3 0\n0\n');
  });

  it('keeps exit codes, also those that mean a failed start elsewhere', async () => {
    for (const code of [0, 7, 126, 127]) expect((await networked(`exit ${code}`)).status).toBe(code);
  });

  it('keeps the file system of workspace-write', async () => {
    const { stdout } = await networked(
      'echo x > ok; (echo x > ../out) 2>/dev/null && echo ESCAPED; (mkdir .git) 2>/dev/null && echo ESCAPED; ls',
    );
    expect(stdout).toBe('ok\n');
  });
});
