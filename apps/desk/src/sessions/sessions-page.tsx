import { Checkbox } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { fetchRunning, fetchSessions } from '../api/sessions.ts';
import { Loaded, Page } from '../app/page-state.tsx';
import { useWaiting } from '../live/live-context.tsx';
import '../review/review.css';
import '../text/exact-text.css';
import { plainVisible } from '../text/visible-text.ts';
import { SessionDetail } from './session-detail.tsx';
import { type TreeRow, treeOf } from './session-tree.ts';
import './sessions.css';

const EVERY_MS = 5_000;
/** Deeper sessions are not moved further in. */
const MAX_DEPTH_SHOWN = 6;

function Line({ row: { session, depth, waiting, running }, open }: { row: TreeRow; open: boolean }) {
  const { t } = useTranslation();
  return (
    <li data-session={session.id} data-depth={Math.min(depth, MAX_DEPTH_SHOWN)}>
      <Link
        to="/sessions/$sessionId"
        params={{ sessionId: session.id }}
        aria-current={open ? 'true' : undefined}
        preload={false}
      >
        <span className="row spread">
          <bdi className="cut">
            {t('call.on', { agent: plainVisible(session.agent), host: plainVisible(session.host) })}
          </bdi>
          <span className="row tight">
            {waiting > 0 && <span className="tag warn">{t('sessions.waiting', { count: waiting })}</span>}
            {running > 0 && <span className="tag accent">{t('sessions.running', { count: running })}</span>}
            {session.state !== 'open' && <span className="tag">{t('sessions.state.closed')}</span>}
          </span>
        </span>
        <span className="row spread small dim">
          <bdi className="cut mono">{plainVisible(session.project)}</bdi>
          <span>
            {session.permissionMode} · {session.approvalMode}
            {session.eternal && ` · ${t('sessions.unattended')}`}
          </span>
        </span>
      </Link>
    </li>
  );
}

/** Sessions as a tree, with what waits and runs in each, and one of them whole. */
export function SessionsPage() {
  const { t } = useTranslation();
  const { sessionId } = useParams({ strict: false }) as { sessionId?: string };
  const [closed, setClosed] = useState(false);
  const { calls } = useWaiting();
  const sessions = useQuery({
    queryKey: ['sessions', closed || sessionId !== undefined],
    queryFn: () => fetchSessions(!(closed || sessionId !== undefined)),
    refetchInterval: EVERY_MS,
  });
  const running = useQuery({ queryKey: ['running'], queryFn: fetchRunning, refetchInterval: EVERY_MS });
  const chosen = sessions.data?.find(({ id }) => id === sessionId);
  return (
    <Page title={t('nav.sessions')}>
      <div className="sessions" data-open={sessionId !== undefined || undefined}>
        <nav className="stack" aria-label={t('sessions.list')}>
          <Checkbox
            size="xs"
            label={t('sessions.closed')}
            checked={closed}
            onChange={(event) => setClosed(event.currentTarget.checked)}
          />
          <Loaded query={sessions}>
            {(found) => {
              const listed = found.filter(({ state, id }) => closed || state === 'open' || id === sessionId);
              return listed.length === 0 ? (
                <p className="empty">{t('sessions.none')}</p>
              ) : (
                <ul className="plain session-list">
                  {treeOf(listed, calls, running.data ?? []).map((row) => (
                    <Line key={row.session.id} row={row} open={row.session.id === sessionId} />
                  ))}
                </ul>
              );
            }}
          </Loaded>
        </nav>
        <div>
          {chosen && <SessionDetail key={chosen.id} session={chosen} />}
          {sessionId === undefined && <p className="empty">{t('sessions.choose')}</p>}
          {sessionId !== undefined && !chosen && sessions.isSuccess && <p className="empty">{t('sessions.gone')}</p>}
        </div>
      </div>
    </Page>
  );
}
