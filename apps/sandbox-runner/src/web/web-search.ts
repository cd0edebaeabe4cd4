import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { z } from 'zod';
import type { ToolError, WebAnswer } from '../work/host-tools.ts';
import { fetchPage, type PageRequest } from './fetch-page.ts';
import { markUntrusted } from './page-text.ts';
import type { SearchProvider } from './search-provider.ts';

type SearchRequest = Omit<PageRequest, 'url' | 'headers' | 'hosts'> & {
  readonly provider: SearchProvider | undefined;
  readonly query: string;
  readonly maxResults: number;
};

const MAX_FIELD_CHARS = 1_000;
const anything = z.record(z.string(), z.unknown());

function at(value: unknown, dotted: string): unknown {
  return dotted.split('.').reduce<unknown>((inner, key) => {
    const record = anything.safeParse(inner);
    return record.success && Object.hasOwn(record.data, key) ? record.data[key] : undefined;
  }, value);
}

const line = (value: unknown): string =>
  typeof value === 'string' ? value.replace(/\s+/g, ' ').trim().slice(0, MAX_FIELD_CHARS) : '';

function render(list: readonly unknown[], { fields }: SearchProvider): string {
  return list
    .map(
      (item, index) =>
        `${index + 1}. ${line(at(item, fields.title))}\n${line(at(item, fields.url))}\n${line(at(item, fields.text))}`,
    )
    .join('\n\n');
}

const failed = (message: string): Result<never, ToolError> => err({ code: ERROR_CODES.toolFailed, message });

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

/** Asks the configured provider; results are titles, addresses and texts of others. */
export async function webSearch(request: SearchRequest): Promise<Result<WebAnswer, ToolError>> {
  const { provider, query, maxResults, ...rest } = request;
  if (!provider) {
    const message = 'this host has no search provider; set `search` in the configuration of the runner';
    return err({ code: ERROR_CODES.unimplemented, message });
  }
  const url = provider.url.replaceAll('{query}', encodeURIComponent(query)).replaceAll('{count}', String(maxResults));
  const headers = { ...provider.headers, accept: 'application/json' };
  const page = await fetchPage({ ...rest, url, headers, hosts: [] });
  if (!page.ok) return page;
  if (page.value.status !== 200) return failed(`the search provider answered with status ${page.value.status}`);
  const list = at(parse(page.value.body), provider.results);
  if (!Array.isArray(list)) return failed('the search provider gave no list of results');
  const text = render(list.slice(0, maxResults), provider);
  const source = new URL(url).host;
  return ok({
    content: markUntrusted(source, text, crypto.randomUUID()),
    note: `${Math.min(list.length, maxResults)} results`,
    egress: rest.log.lines(),
  });
}
