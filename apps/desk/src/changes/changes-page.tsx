import { Alert, Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type FileChange, fetchChangeDiff, fetchChanges, markReviewed, requestRollback } from '../api/changes.ts';
import { mayDecide } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded, Page } from '../app/page-state.tsx';
import { DiffView } from '../review/diff-view.tsx';
import { StateName } from '../review/state-name.tsx';
import { plainVisible } from '../text/visible-text.ts';

const EVERY_MS = 3_000;
const TONE = { unreviewed: 'warn', reviewed: 'good', rolled_back: '' } as const;

function Difference({ callId }: { callId: string }) {
  const diff = useQuery({ queryKey: ['change', callId], queryFn: () => fetchChangeDiff(callId) });
  return <Loaded query={diff}>{(text) => <DiffView diff={text} />}</Loaded>;
}

function Acts({ change }: { change: FileChange }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const readAgain = () => client.invalidateQueries({ queryKey: ['changes'] });
  const review = useMutation({ mutationFn: () => markReviewed(change.callId, me.csrf), onSuccess: readAgain });
  const rollback = useMutation({ mutationFn: () => requestRollback(change.callId, me.csrf), onSuccess: readAgain });
  const failed = review.error ?? rollback.error;
  if (!mayDecide(me)) return null;
  return (
    <>
      {failed && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {failed.message}
        </Alert>
      )}
      {rollback.data && (
        <p role="status">
          {t('changes.requested')}{' '}
          <Link to="/calls/$callId" params={{ callId: rollback.data.callId }}>
            <StateName state={rollback.data.state} />
          </Link>
        </p>
      )}
      <div className="row">
        {change.state === 'unreviewed' && (
          <Button size="compact-sm" variant="outline" loading={review.isPending} onClick={() => review.mutate()}>
            {t('changes.review')}
          </Button>
        )}
        {change.state !== 'rolled_back' && (
          <Button
            size="compact-sm"
            variant="outline"
            color="red"
            disabled={rollback.isSuccess}
            loading={rollback.isPending}
            onClick={() => rollback.mutate()}
          >
            {t('changes.rollback')}
          </Button>
        )}
      </div>
    </>
  );
}

function Change({ change }: { change: FileChange }) {
  const { t, i18n } = useTranslation();
  const [open, setOpen] = useState(false);
  const time = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'medium' });
  return (
    <li className="card stack" data-change={change.callId}>
      <div className="row spread">
        <span className="wrap">
          <span className={`tag ${TONE[change.state]}`}>{t(`changes.${change.state}`)}</span>{' '}
          {change.uncertain && <span className="tag bad">{t('state.interrupted')}</span>}{' '}
          <bdi className="mono">{plainVisible(change.path)}</bdi>
        </span>
        <span className="row">
          <span className="dim small">
            {t('call.on', { agent: plainVisible(change.agent), host: plainVisible(change.host) })} ·{' '}
            {time.format(change.atMs)}
          </span>
          <Button size="compact-sm" variant="subtle" aria-expanded={open} onClick={() => setOpen(!open)}>
            {t('review.diff')}
          </Button>
        </span>
      </div>
      {open && <Difference callId={change.callId} />}
      <Acts change={change} />
    </li>
  );
}

/** Changes of files that agents made: look at each, mark it as reviewed, ask for its rollback. */
export function ChangesPage() {
  const { t } = useTranslation();
  const changes = useQuery({ queryKey: ['changes'], queryFn: fetchChanges, refetchInterval: EVERY_MS });
  return (
    <Page title={t('nav.changes')}>
      <Loaded query={changes}>
        {(found) =>
          found.length === 0 ? (
            <p className="empty">{t('changes.none')}</p>
          ) : (
            <ul className="plain stack">
              {found.map((change) => (
                <Change key={change.change} change={change} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Page>
  );
}
