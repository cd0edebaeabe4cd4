import { Alert, Button } from '@mantine/core';
import { useNavigate, useParams, useRouter, useRouterState, useSearch } from '@tanstack/react-router';
import { lazy, memo, Suspense, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Call } from '../api/calls.ts';
import { Loading } from '../app/loading.tsx';
import { useWaiting } from '../live/live-context.tsx';
import { ReviewPane } from '../review/review-pane.tsx';
import { filterCalls, groupingOf, nextOf, type Place, rowsOf } from './arrange.ts';
import { CallList } from './call-list.tsx';
import { useNow } from './clock.ts';
import { type InboxSearch, inboxSearch } from './inbox-search.ts';
import './inbox.css';
import { InboxFilters } from './inbox-filters.tsx';
import { JustDecided, MAX_TOLD } from './just-decided.tsx';
import { SavedViews } from './saved-views.tsx';
import { useMarked } from './use-marked.ts';
import { useTypedSearch, withText } from './use-typed-search.ts';

const BulkDialog = lazy(() =>
  import('./bulk-dialog.tsx').then(({ BulkDialog: component }) => ({ default: component })),
);

const RequestCards = lazy(() =>
  import('../requests/request-cards.tsx').then(({ RequestCards: component }) => ({ default: component })),
);

function useInboxAddress() {
  const { callId } = useParams({ strict: false }) as { callId?: string };
  const found = useSearch({ strict: false });
  const search = useMemo(() => inboxSearch(found), [found]);
  const navigate = useNavigate();
  const setSearch = useCallback(
    (change: (before: InboxSearch) => InboxSearch) =>
      void navigate({ to: '.', search: (before) => change(inboxSearch(before)), replace: true }),
    [navigate],
  );
  const openCall = useCallback(
    (id: string | undefined) =>
      void (id === undefined
        ? navigate({ to: '/', search: true })
        : navigate({ to: '/calls/$callId', params: { callId: id }, search: true })),
    [navigate],
  );
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

type SideProps = Omit<ReturnType<typeof useInboxAddress>, 'callId'> & {
  readonly openId: string | undefined;
  /** Told of the list as it is shown, and where in it the open call was last. */
  readonly place: { current: Place };
};

/** The list with its filters. A key in the search makes this again and nothing beside it. */
const InboxSide = memo(function InboxSide({ search, setSearch, openCall, openId, place }: SideProps) {
  const { t } = useTranslation();
  const waiting = useWaiting();
  const minute = useMinute();
  const { text, type, typed } = useTypedSearch(search, setSearch);
  const q = useDeferredValue(text);
  const shown = useMemo(
    () => filterCalls(waiting.calls, withText(search, q), minute),
    [waiting.calls, search, q, minute],
  );
  useEffect(() => {
    const index = shown.findIndex(({ callId }) => callId === openId);
    place.current = { order: shown, index: index < 0 ? place.current.index : index };
  }, [shown, place, openId]);
  const grouping = groupingOf(search);
  const rows = useMemo(() => rowsOf(shown, grouping), [shown, grouping]);
  const { marked, mark, clear } = useMarked(waiting.calls);
  const [bulk, setBulk] = useState<readonly string[]>();
  const query = useRouterState({ select: ({ location }) => location.searchStr });
  return (
    <section className="inbox-side" aria-label={t('inbox.title')}>
      <div className="inbox-head">
        <h1>{t('inbox.title')}</h1>
        <span className="dim small" role="status">
          {shown.length === waiting.calls.length
            ? t('inbox.waiting', { count: shown.length })
            : t('inbox.shown', { shown: shown.length, count: waiting.calls.length })}
        </span>
      </div>
      <Suspense fallback={null}>
        <RequestCards />
      </Suspense>
      <SavedViews search={search} openId={openId} />
      <InboxFilters
        calls={waiting.calls}
        search={search}
        onChange={setSearch}
        text={text}
        onType={type}
        onTyped={typed}
      />
      {waiting.problem !== undefined && (
        <Alert color="red" role="alert" title={t('inbox.stale')} m="xs">
          {waiting.problem}
        </Alert>
      )}
      {waiting.cut && <div className="banner">{t('inbox.cut')}</div>}
      {!waiting.loaded && waiting.problem === undefined && <Loading m="md" />}
      {waiting.loaded && rows.length === 0 && (
        <NothingShown
          filtered={waiting.calls.length > 0}
          onClear={() => {
            type('');
            setSearch(() => ({}));
          }}
        />
      )}
      {rows.length > 0 && (
        <CallList rows={rows} marked={marked} openId={openId} query={query} onMark={mark} onOpen={openCall} />
      )}
      {marked.size > 0 && <MarkedBar marked={marked.size} onClear={clear} onReview={() => setBulk([...marked])} />}
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
    </section>
  );
});

/** Escape closes the open call, except in a field or a dialog, and takes the focus to its line. It decides nothing. */
function useEscape(callId: string | undefined, openCall: (id: string | undefined) => void): void {
  useEffect(() => {
    if (callId === undefined) return undefined;
    const onKey = (event: KeyboardEvent) => {
      const field = event.target instanceof Element && event.target.closest('input, textarea, select, [role="menu"]');
      if (event.key !== 'Escape' || event.defaultPrevented || field || document.querySelector('[role="dialog"]'))
        return;
      openCall(undefined);
      requestAnimationFrame(() => document.querySelector<HTMLElement>(`a[data-call="${CSS.escape(callId)}"]`)?.focus());
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [callId, openCall]);
}

/** The waiting calls beside the one under review. */
export function InboxPage() {
  const { t } = useTranslation();
  const { callId, search, setSearch, openCall } = useInboxAddress();
  const place = useRef<Place>({ order: [], index: 0 });
  const [told, setTold] = useState<readonly Call[]>([]);
  const router = useRouter();
  const openNext = (answered: Call) => {
    setTold((before) => [answered, ...before.filter(({ callId: id }) => id !== answered.callId)].slice(0, MAX_TOLD));
    // A confirmation that comes late takes nobody away from where they went meanwhile, or are on the way to.
    const { pathname } = router.buildLocation({ to: '/calls/$callId', params: { callId: answered.callId } });
    if (router.latestLocation.pathname === pathname) openCall(nextOf(place.current, answered.callId)?.callId);
  };
  useEscape(callId, openCall);
  return (
    <div className="inbox" data-open={callId !== undefined || undefined}>
      <InboxSide search={search} setSearch={setSearch} openCall={openCall} openId={callId} place={place} />
      <section className="inbox-main" aria-label={t('review.digest')}>
        <JustDecided calls={told} onClose={(id) => setTold(told.filter((call) => call.callId !== id))} />
        {callId === undefined ? (
          <p className="empty">{t('inbox.choose')}</p>
        ) : (
          <ReviewPane key={callId} callId={callId} onBack={() => openCall(undefined)} onNext={openNext} />
        )}
      </section>
    </div>
  );
}
