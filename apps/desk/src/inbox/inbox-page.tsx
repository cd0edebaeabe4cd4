import { Alert, Button, Loader } from '@mantine/core';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { lazy, Suspense, useDeferredValue, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useWaiting } from '../live/live-context.tsx';
import { ReviewPane } from '../review/review-pane.tsx';
import { filterCalls, groupingOf, rowsOf } from './arrange.ts';
import { CallList } from './call-list.tsx';
import { useNow } from './clock.ts';
import { type InboxSearch, inboxSearch } from './inbox-search.ts';
import './inbox.css';
import { InboxFilters } from './inbox-filters.tsx';
import { SavedViews } from './saved-views.tsx';
import { useMarked } from './use-marked.ts';

const BulkDialog = lazy(() =>
  import('./bulk-dialog.tsx').then(({ BulkDialog: component }) => ({ default: component })),
);

function useInboxAddress() {
  const { callId } = useParams({ strict: false }) as { callId?: string };
  const search = inboxSearch(useSearch({ strict: false }));
  const navigate = useNavigate();
  const setSearch = (next: InboxSearch) =>
    void (callId === undefined
      ? navigate({ to: '/', search: next, replace: true })
      : navigate({ to: '/calls/$callId', params: { callId }, search: next, replace: true }));
  const openCall = (id: string | undefined) =>
    void (id === undefined
      ? navigate({ to: '/', search })
      : navigate({ to: '/calls/$callId', params: { callId: id }, search }));
  return { callId, search, setSearch, openCall };
}

/** Coarse time for the filter by deadline, so that the list is not made again every second. */
const useMinute = (): number => useNow(30_000);

function NothingShown({ filtered, onClear }: { filtered: boolean; onClear: () => void }) {
  const { t } = useTranslation();
  return (
    <div className="empty">
      <p>{t(filtered ? 'inbox.noMatch' : 'inbox.empty')}</p>
      {filtered ? (
        <Button size="compact-sm" variant="subtle" onClick={onClear}>
          {t('inbox.clear')}
        </Button>
      ) : (
        <p className="small">{t('inbox.emptyText')}</p>
      )}
    </div>
  );
}

function MarkedBar({ marked, onClear, onReview }: { marked: number; onClear: () => void; onReview: () => void }) {
  const { t } = useTranslation();
  return (
    <div className="marked-bar row spread">
      <span>{t('inbox.selected', { count: marked })}</span>
      <span className="row tight">
        <Button size="compact-sm" variant="subtle" onClick={onClear}>
          {t('inbox.unselect')}
        </Button>
        <Button size="compact-sm" onClick={onReview}>
          {t('inbox.bulk')}
        </Button>
      </span>
    </div>
  );
}

/** The waiting calls beside the one under review. */
export function InboxPage() {
  const { t } = useTranslation();
  const waiting = useWaiting();
  const { callId, search, setSearch, openCall } = useInboxAddress();
  const minute = useMinute();
  const key = JSON.stringify(search);
  const deferred = useDeferredValue(key);
  const shown = useMemo(
    () => filterCalls(waiting.calls, JSON.parse(deferred) as InboxSearch, minute),
    [waiting.calls, deferred, minute],
  );
  const grouping = groupingOf(search);
  const rows = useMemo(() => rowsOf(shown, grouping), [shown, grouping]);
  const { marked, mark, clear } = useMarked(waiting.calls);
  const [bulk, setBulk] = useState<readonly string[]>();
  const openNext = (after: string) => {
    const index = shown.findIndex((call) => call.callId === after);
    openCall((shown[index + 1] ?? shown[index - 1])?.callId);
  };
  return (
    <div className="inbox" data-open={callId !== undefined || undefined}>
      <section className="inbox-side" aria-label={t('inbox.title')}>
        <div className="inbox-head">
          <h1>{t('inbox.title')}</h1>
          <span className="dim small" role="status">
            {shown.length === waiting.calls.length
              ? t('inbox.waiting', { count: shown.length })
              : t('inbox.shown', { shown: shown.length, count: waiting.calls.length })}
          </span>
        </div>
        <SavedViews search={search} openId={callId} />
        <InboxFilters calls={waiting.calls} search={search} onChange={setSearch} />
        {waiting.problem !== undefined && (
          <Alert color="red" role="alert" title={t('inbox.stale')} m="xs">
            {waiting.problem}
          </Alert>
        )}
        {waiting.cut && <div className="banner">{t('inbox.cut')}</div>}
        {!waiting.loaded && waiting.problem === undefined && <Loader size="sm" m="md" aria-label={t('app.loading')} />}
        {waiting.loaded && rows.length === 0 && (
          <NothingShown filtered={waiting.calls.length > 0} onClear={() => setSearch({})} />
        )}
        {rows.length > 0 && <CallList rows={rows} marked={marked} openId={callId} onMark={mark} />}
        {marked.size > 0 && <MarkedBar marked={marked.size} onClear={clear} onReview={() => setBulk([...marked])} />}
      </section>
      <section className="inbox-main" aria-label={t('review.digest')}>
        {callId === undefined ? (
          <p className="empty">{t('inbox.choose')}</p>
        ) : (
          <ReviewPane key={callId} callId={callId} onBack={() => openCall(undefined)} onNext={() => openNext(callId)} />
        )}
      </section>
      {bulk && (
        <Suspense fallback={null}>
          <BulkDialog
            ids={bulk}
            calls={waiting.calls}
            onClose={() => setBulk(undefined)}
            onRecorded={(id) => mark([id], false)}
          />
        </Suspense>
      )}
    </div>
  );
}
