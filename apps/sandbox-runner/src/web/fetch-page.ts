import type { IncomingMessage } from 'node:http';
import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import type { EgressLog } from '../egress/egress-log.ts';
import { EgressPolicy, type ResolveHost } from '../egress/egress-policy.ts';
import { resolveHost } from '../egress/resolve-host.ts';
import type { ToolError } from '../work/host-tools.ts';
import { pinnedRequest } from './pinned-request.ts';

export type PageRequest = {
  /** A plain http or https address; its host and port were decided on. */
  readonly url: string;
  /** Further hosts that redirects may lead to. */
  readonly hosts: readonly string[];
  readonly blockPrivateNetwork: boolean;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly log: EgressLog;
  readonly headers?: Readonly<Record<string, string>>;
  readonly resolve?: ResolveHost;
};

export type Page = {
  /** Where the last redirect led. */
  readonly url: string;
  readonly status: number;
  readonly contentType: string;
  readonly body: Uint8Array;
  readonly isCut: boolean;
};

export const MAX_PAGE_BYTES = 5 * 1024 * 1024;
const MAX_HOPS = 5;
const MAX_TIMEOUT_MS = 60_000;
const HEADERS = {
  'user-agent': 'countersign',
  accept: 'text/html, text/*, application/json',
  'accept-encoding': 'identity',
};

const failed = (message: string): Result<never, ToolError> => err({ code: ERROR_CODES.toolFailed, message });

const portOf = (url: URL): number => Number(url.port) || (url.protocol === 'https:' ? 443 : 80);

async function readBody(response: IncomingMessage): Promise<{ body: Uint8Array; isCut: boolean }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, MAX_PAGE_BYTES - bytes));
    bytes += chunk.length;
    if (bytes > MAX_PAGE_BYTES) break;
  }
  response.destroy();
  return { body: Buffer.concat(chunks), isCut: bytes > MAX_PAGE_BYTES };
}

/** The address of the next hop; undefined when the answer is no redirect. */
function nextHop(response: IncomingMessage, from: URL): URL | undefined | 'invalid' {
  const { location } = response.headers;
  const isRedirect = [301, 302, 303, 307, 308].includes(response.statusCode ?? 0);
  if (!isRedirect || location === undefined) return undefined;
  const next = URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
  if (!next || !['http:', 'https:'].includes(next.protocol) || next.username !== '' || next.password !== '')
    return 'invalid';
  return next;
}

/**
 * Fetches a page. Every hop is judged again: the host must be the one that was decided on or a listed one, its addresses
 * are checked, and the connection goes to a checked address. At most five redirects; a longer body than 5 MiB is cut.
 */
export async function fetchPage(request: PageRequest): Promise<Result<Page, ToolError>> {
  const { hosts, blockPrivateNetwork, log, resolve = resolveHost } = request;
  if (!URL.canParse(request.url)) return failed('`url` is not an address');
  let url = new URL(request.url);
  const policy = new EgressPolicy(
    { hosts: [`${url.hostname}:${portOf(url)}`, ...hosts], blockPrivateNetwork },
    resolve,
  );
  const limit = AbortSignal.timeout(Math.min(request.timeoutMs, MAX_TIMEOUT_MS));
  const signal = AbortSignal.any([request.signal, limit]);
  try {
    for (let hops = 0; hops <= MAX_HOPS; hops += 1) {
      const target = { host: url.hostname, port: portOf(url) };
      const checked = await policy.check(target.host, target.port);
      if (!checked.ok) {
        log.add({ via: 'http', ...target, refused: checked.error });
        return failed(
          `\`${url.host}\` ${checked.error}${hops > 0 ? ' (a redirect led there; ask for it by itself)' : ''}`,
        );
      }
      const answer = await pinnedRequest({
        url,
        checked: checked.value,
        signal,
        headers: { ...HEADERS, ...request.headers },
      });
      log.add({
        via: 'http',
        ...target,
        ...(answer.ok ? { address: checked.value.addresses[0] ?? '' } : { refused: answer.error }),
      });
      if (!answer.ok) return failed(`\`${url.host}\` ${answer.error}`);
      const next = nextHop(answer.value, url);
      if (next === undefined) {
        const { statusCode = 0, headers } = answer.value;
        return ok({
          url: url.href,
          status: statusCode,
          contentType: headers['content-type'] ?? '',
          ...(await readBody(answer.value)),
        });
      }
      answer.value.destroy();
      if (next === 'invalid') return failed(`\`${url.host}\` redirects to what is no plain http address`);
      url = next;
    }
    return failed(`more than ${MAX_HOPS} redirects`);
  } catch {
    return failed(signal.aborted ? `\`${url.host}\` took too long` : `\`${url.host}\` broke off`);
  }
}
