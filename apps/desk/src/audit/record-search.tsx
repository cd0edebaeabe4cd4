import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type Answer, askRecord, csvAddress, type Filters, QUESTIONS, type QuestionName } from '../api/audit.ts';
import { Loaded } from '../app/page-state.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { Timeline } from './timeline.tsx';

const TEXT_FILTERS = ['call', 'type', 'agent', 'host', 'tool', 'approver'] as const;
const TIME_FILTERS = ['since', 'until'] as const;
/** Questions about the present state, which take no filter of entries. */
const WITHOUT_FILTERS: readonly QuestionName[] = ['open-calls', 'silent-hosts'];

type Asked = { readonly question: QuestionName; readonly filters: Filters };

/** The filters as the record takes them: times as milliseconds. */
const filtersOf = (form: Filters): Filters =>
  Object.fromEntries(
    Object.entries(form).map(([name, value]) => [
      name,
      value !== '' && (name === 'since' || name === 'until') ? String(new Date(value).getTime()) : value.trim(),
    ]),
  );

function SearchForm({ onAsk }: { onAsk: (asked: Asked) => void }) {
  const { t } = useTranslation();
  const [question, setQuestion] = useState<QuestionName>('entries');
  const [form, setForm] = useState<Filters>({});
  const plain = WITHOUT_FILTERS.includes(question);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAsk({ question, filters: plain ? {} : filtersOf(form) });
  };
  const field = (name: (typeof TEXT_FILTERS)[number] | (typeof TIME_FILTERS)[number], type: string) => (
    <TextInput
      key={name}
      size="xs"
      type={type}
      label={t(`audit.filter.${name}`)}
      value={form[name] ?? ''}
      maxLength={200}
      onChange={(event) => setForm({ ...form, [name]: event.currentTarget.value })}
    />
  );
  return (
    <form className="stack" onSubmit={submit}>
      <div className="field-grid">
        <NativeSelect
          size="xs"
          label={t('audit.question')}
          value={question}
          onChange={(event) => setQuestion(QUESTIONS.find((one) => one === event.currentTarget.value) ?? 'entries')}
          data={QUESTIONS.map((value) => ({ value, label: t(`audit.question.${value}`) }))}
        />
        {!plain && TEXT_FILTERS.map((name) => field(name, 'text'))}
        {!plain && TIME_FILTERS.map((name) => field(name, 'datetime-local'))}
      </div>
      <div className="row">
        <Button type="submit" size="sm">
          {t('audit.find')}
        </Button>
      </div>
    </form>
  );
}

function Cell({ column, value, onCall }: { column: string; value: unknown; onCall: (call: string) => void }) {
  const { i18n } = useTranslation();
  if (value === null || value === '') return null;
  if (column.endsWith('_ms') && column !== 'waited_ms' && column !== 'offset_ms')
    return new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'medium' }).format(Number(value));
  if (column === 'call_id')
    return (
      <button type="button" className="as-link mono" onClick={() => onCall(String(value))}>
        {plainVisible(String(value))}
      </button>
    );
  return plainVisible(String(value));
}

/** Columns without a value in any row are left out. */
function Rows({ pages, onCall }: { pages: readonly Answer[]; onCall: (call: string) => void }) {
  // Rows are only ever added at the end.
  const rows = pages.flatMap((page) => page.rows).map((cells, at) => ({ cells, key: at }));
  const columns = (pages[0]?.columns ?? []).flatMap((name, at) =>
    rows.some(({ cells }) => cells[at] !== null && cells[at] !== '') ? [{ name, at }] : [],
  );
  return (
    <SheetBox>
      <table className="sheet small">
        <thead>
          <tr>
            {columns.map(({ name }) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ cells, key }) => (
            <tr key={key}>
              {columns.map(({ name, at }) => (
                <td key={name}>
                  <bdi>
                    <Cell column={name} value={cells[at]} onCall={onCall} />
                  </bdi>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}

function Found({ asked, onCall }: { asked: Asked; onCall: (call: string) => void }) {
  const { t } = useTranslation();
  const found = useInfiniteQuery({
    queryKey: ['record', asked],
    queryFn: ({ pageParam }) => askRecord(asked.question, asked.filters, pageParam),
    initialPageParam: '',
    getNextPageParam: (page) => page.next,
  });
  return (
    <Loaded query={found}>
      {({ pages }) => {
        const shown = pages.reduce((sum, { rows }) => sum + rows.length, 0);
        return (
          <div className="stack">
            <div className="row spread">
              <span role="status" className="dim small">
                {shown === 0 ? t('audit.nothing') : t('audit.found', { shown, count: pages[0]?.entries ?? 0 })}
              </span>
              <a href={csvAddress(asked.question, asked.filters)} download="countersign-record.csv">
                {t('audit.csv')}
              </a>
            </div>
            {shown > 0 && <Rows pages={pages} onCall={onCall} />}
            {found.hasNextPage && (
              <Button
                size="compact-sm"
                variant="default"
                loading={found.isFetchingNextPage}
                onClick={() => void found.fetchNextPage()}
              >
                {t('audit.more')}
              </Button>
            )}
          </div>
        );
      }}
    </Loaded>
  );
}

/** Questions to the record, page by page, as CSV, and the timeline of a call. */
export function RecordSearch() {
  const { t } = useTranslation();
  const [asked, setAsked] = useState<Asked>();
  const [call, setCall] = useState<string>();
  return (
    <section className="card stack" aria-label={t('audit.search')}>
      <h2>{t('audit.search')}</h2>
      <SearchForm onAsk={setAsked} />
      {call !== undefined && <Timeline call={call} onClose={() => setCall(undefined)} />}
      {asked && <Found key={JSON.stringify(asked)} asked={asked} onCall={setCall} />}
    </section>
  );
}
