import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { collect, wholeNumber } from '../options.ts';
import { EXIT, print, RefusedError } from '../output.ts';

const answerSchema = z.object({
  columns: z.array(z.string()),
  rows: z.array(z.array(z.unknown())),
  entries: z.int(),
  next: z.string().optional(),
  summary: z.record(z.string(), z.unknown()).optional(),
});
const savedSchema = z.object({
  saved: z.array(z.object({ name: z.string(), question: z.string(), filters: z.record(z.string(), z.string()) })),
});

/** As the gateway bounds it. */
const MAX_LIMIT = 1_000;

type Answer = z.infer<typeof answerSchema>;
type Flags = {
  filter?: string[];
  limit: string;
  cursor?: string;
  all?: boolean;
  csv?: boolean;
  save?: string;
  saved?: boolean;
};

function readFilters(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf('=');
      if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
      throw new RefusedError(
        `\`${text}\` is no filter; write \`name=value\``,
        'countersign.cli.bad_filter',
        EXIT.usage,
      );
    }),
  );
}

const shown = (column: string, value: unknown): string => {
  if (value === null) return '';
  return column.endsWith('_ms') && !/^(?:waited|offset|median)/.test(column) && typeof value === 'number'
    ? new Date(value).toISOString()
    : String(value);
};

/** A table in aligned columns. */
function tableOf({ columns, rows }: Answer): string {
  const cells = [columns, ...rows.map((row) => row.map((value, at) => shown(columns[at] ?? '', value)))];
  const safe = cells.map((row) => row.map((cell) => cell.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd')));
  const widths = columns.map((_, at) => Math.max(...safe.map((row) => (row[at] ?? '').length)));
  return safe
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** A saved question's name and filters; given filters go over the saved ones. */
async function resolve(command: Command, name: string, flags: Flags) {
  const filters = readFilters(flags.filter ?? []);
  if (!flags.saved) return { question: name, filters };
  const { saved } = savedSchema.parse(accepted(await localGateway(command, 'local-auditor').audit('saved')));
  const found = saved.find((query) => query.name === name);
  if (found) return { question: found.question, filters: { ...found.filters, ...filters } };
  const known = saved.map((query) => query.name).join(', ') || 'none';
  throw new RefusedError(`no saved question \`${name}\`; there are: ${known}`, 'countersign.cli.not_saved', EXIT.usage);
}

async function save(command: Command, name: string, asked: { question: string; filters: object }): Promise<void> {
  const change = { method: 'PUT', body: asked } as const;
  accepted(await localGateway(command, 'local-auditor').audit(`saved/${encodeURIComponent(name)}`, change));
}

async function printCsv(command: Command, pathOf: (cursor: string) => string, all: boolean): Promise<void> {
  let cursor = '';
  do {
    const page = accepted(await localGateway(command, 'local-auditor').auditStream(pathOf(cursor)));
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of page.body) text += decoder.decode(chunk, { stream: true });
    process.stdout.write(cursor === '' ? text : text.slice(text.indexOf('\n') + 1));
    cursor = page.next;
  } while (all && cursor !== '');
}

async function query(name: string, flags: Flags, command: Command): Promise<void> {
  const limit = String(wholeNumber(flags.limit, '--limit', { most: MAX_LIMIT }));
  const asked = await resolve(command, name, flags);
  if (flags.save !== undefined) await save(command, flags.save, asked);
  const pathOf = (cursor: string, format: string) =>
    `queries/${encodeURIComponent(asked.question)}?${new URLSearchParams({ ...asked.filters, limit, cursor, format })}`;
  if (flags.csv)
    return printCsv(command, (cursor) => pathOf(cursor || (flags.cursor ?? ''), 'csv'), flags.all ?? false);
  let answer: Answer | undefined;
  let cursor = flags.cursor ?? '';
  do {
    const page = answerSchema.parse(
      accepted(await localGateway(command, 'local-auditor').audit(pathOf(cursor, 'json'))),
    );
    answer = answer ? { ...page, rows: [...answer.rows, ...page.rows], summary: answer.summary } : page;
    cursor = page.next ?? '';
  } while (flags.all && cursor !== '');
  const figures = Object.entries(answer.summary ?? {}).map(([key, value]) => `${key}: ${String(value)}`);
  const lines = [
    tableOf(answer),
    ...figures,
    `${answer.rows.length} rows over ${answer.entries} entries${cursor === '' ? '' : `; next page: --cursor ${cursor}`}`,
  ];
  return print(command, answer, lines.join('\n'));
}

/** `countersign audit query NAME`: the auditor's questions. */
export function addAuditQueryCommand(audit: Command): void {
  audit
    .command('query <question>')
    .description("answer one of the auditor's questions; a wrong name lists them (docs/audit.md)")
    .option('--filter <name=value>', 'a filter of the question; repeatable', collect)
    .option('--limit <rows>', `rows of a page, at most ${MAX_LIMIT}`, '100')
    .option('--cursor <cursor>', 'the page after this one')
    .option('--all', 'every page')
    .option('--csv', 'as CSV')
    .option('--save <name>', 'keep the question with its filters under a name')
    .option('--saved', 'the name is that of a saved question')
    .action(query);
}
