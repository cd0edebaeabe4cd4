import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import type { ToolError, WebAnswer } from '../work/host-tools.ts';
import { fetchPage, type PageRequest } from './fetch-page.ts';
import { markUntrusted, pageText } from './page-text.ts';

/** Reads a web page as text. */
export async function webFetch(request: PageRequest): Promise<Result<WebAnswer, ToolError>> {
  const page = await fetchPage(request);
  if (!page.ok) return page;
  const { url, status, contentType, body } = page.value;
  const read = pageText(body, contentType);
  if (!read) {
    const message = `\`${new URL(url).host}\` answered with \`${contentType.slice(0, 100)}\`, which is no text`;
    return err({ code: ERROR_CODES.toolFailed, message });
  }
  const notes = [
    `status ${status}`,
    ...(url === request.url ? [] : [`redirected to ${url}`]),
    ...(page.value.isCut || read.isCut ? ['the text is cut'] : []),
  ];
  return ok({
    content: markUntrusted(url, read.text, crypto.randomUUID()),
    note: notes.join('; '),
    egress: request.log.lines(),
  });
}
