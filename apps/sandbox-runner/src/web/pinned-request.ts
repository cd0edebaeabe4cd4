import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { checkServerIdentity } from 'node:tls';
import { err, ok, type Result } from '@countersign/kernel';
import { connectChecked } from '../egress/connect-checked.ts';
import type { Checked } from '../egress/egress-policy.ts';

export type PinnedRequest = {
  readonly url: URL;
  readonly checked: Checked;
  readonly signal: AbortSignal;
  readonly headers: Readonly<Record<string, string>>;
};

const MAX_HEAD_BYTES = 32_768;

/** Asks for a page at an address that was checked; the name is not looked up again. The body is not read yet. */
export async function pinnedRequest(asked: PinnedRequest): Promise<Result<IncomingMessage, string>> {
  const { url, checked, signal, headers } = asked;
  const socket = await connectChecked(checked);
  if (!socket) return err('does not answer');
  signal.addEventListener('abort', () => socket.destroy(), { once: true });
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isAddress = /^[\d.]+$|:/.test(host);
  const ask = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve) => {
    const outgoing = ask({
      ...(url.protocol === 'https:'
        ? { socket, checkServerIdentity, agent: false }
        : { createConnection: () => socket }),
      ...(isAddress ? {} : { servername: host }),
      host,
      method: 'GET',
      path: `${url.pathname}${url.search}`,
      headers: { ...headers, host: url.host, connection: 'close' },
      maxHeaderSize: MAX_HEAD_BYTES,
    });
    outgoing.once('response', (response) => resolve(ok(response)));
    outgoing.once('error', (error) => resolve(err(signal.aborted ? 'took too long' : `failed: ${error.message}`)));
    outgoing.end();
  });
}
