import type { Result } from '@countersign/kernel';
import { EgressLog } from '../egress/egress-log.ts';
import type { SentLimits } from '../launcher/messages.ts';
import type { ToolError, WebAnswer, WebCall } from '../work/host-tools.ts';
import type { SearchProvider } from './search-provider.ts';
import { webFetch } from './web-fetch.ts';
import { webSearch } from './web-search.ts';

type WebWork = {
  readonly call: Exclude<WebCall, { tool: 'browser' }>;
  readonly limits: SentLimits;
  readonly provider: SearchProvider | undefined;
  readonly signal: AbortSignal;
};

const DEFAULT_RESULTS = 8;

/** Carries out a call that reads the web. */
export function webTool({ call, limits, provider, signal }: WebWork): Promise<Result<WebAnswer, ToolError>> {
  const { timeoutMs, hosts = [], blockPrivateNetwork = false } = limits;
  const bounds = { timeoutMs, blockPrivateNetwork, signal, log: new EgressLog() };
  if (call.tool === 'web_fetch') {
    const own = Math.min(call.args.timeout_ms ?? timeoutMs, timeoutMs);
    return webFetch({ ...bounds, url: call.args.url, hosts, timeoutMs: own });
  }
  const { query, max_results: maxResults = DEFAULT_RESULTS } = call.args;
  return webSearch({ ...bounds, provider, query, maxResults });
}
