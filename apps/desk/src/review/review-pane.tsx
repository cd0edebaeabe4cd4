import { Alert, Button } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { type CallDetail, fetchCall } from '../api/calls.ts';
import { ApiError } from '../api/request.ts';
import { Loading } from '../app/loading.tsx';
import { SlaClock } from '../inbox/call-row.tsx';
import { duration, useNow } from '../inbox/clock.ts';
import { useWaiting } from '../live/live-context.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { CallBody } from './call-body.tsx';
import { CallContext } from './call-context.tsx';
import { DecisionBar } from './decision-bar.tsx';
import './review.css';
import { StateName, useStateName } from './state-name.tsx';

function Waited({ receivedMs }: { receivedMs: number }) {
  const { t } = useTranslation();
  return <span className="dim small">{t('call.waited', { time: duration(t, useNow() - receivedMs) })}</span>;
}

function Head({ call, onBack, waits }: { call: CallDetail; onBack: () => void; waits: boolean }) {
  const { t } = useTranslation();
  const facts = [
    ['call.agent', call.agent],
    ['call.principal', call.principal],
    ['call.host', call.host],
    ['call.queue', call.queue],
  ] as const;
  return (
    <header className="review-head">
      <div className="row spread">
        <span className="row">
          <Button className="back" size="compact-sm" variant="subtle" onClick={onBack}>
            {t('inbox.back')}
          </Button>
          <h1>
            <bdi>{plainVisible(call.tool)}</bdi>
          </h1>
          <span className="tag">{call.action}</span>
        </span>
        {waits ? (
          <span className="row">
            <Waited receivedMs={call.receivedMs} />
            <SlaClock deadlineMs={call.deadlineMs} />
          </span>
        ) : (
          <span className="tag accent">
            <StateName state={call.state} />
          </span>
        )}
      </div>
      <p className="row small review-facts">
        {facts.map(([word, value]) =>
          value === undefined || value === '' ? null : (
            <span key={word}>
              <span className="dim">{t(word)}</span> <bdi>{plainVisible(value)}</bdi>
            </span>
          ),
        )}
      </p>
    </header>
  );
}

function Ended({ state, by }: { state: string; by: string }) {
  const { t } = useTranslation();
  const name = useStateName()(state);
  return (
    <Alert role="status" m="sm" p="xs" color="gray" className="ended">
      {by === '' ? t('call.ended', { state: name }) : t('call.endedBy', { by, state: name })}
    </Alert>
  );
}

function Unreadable({ error, onBack, onRetry }: { error: Error; onBack: () => void; onRetry: () => void }) {
  const { t } = useTranslation();
  const gone = error instanceof ApiError && error.status === 404;
  return (
    <div className="page">
      <Alert color="red" role="alert" title={t('app.problem')}>
        <p>{gone ? t('call.gone') : error.message}</p>
        <div className="row">
          <Button size="compact-sm" variant="subtle" onClick={onRetry}>
            {t('app.retry')}
          </Button>
          <Button className="back" size="compact-sm" variant="subtle" onClick={onBack}>
            {t('inbox.back')}
          </Button>
        </div>
      </Alert>
    </div>
  );
}

type Props = { readonly callId: string; readonly onBack: () => void; readonly onNext: (answered: CallDetail) => void };

/** Everything about one call that a decision needs, and the decision. It stays when the call ended elsewhere. */
export function ReviewPane({ callId, onBack, onNext }: Props) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const end = useRef<HTMLDivElement>(null);
  const waiting = useWaiting();
  const ended = waiting.ended.get(callId);
  const answers = waiting.answers.get(callId) ?? 0;
  const detail = useQuery({ queryKey: ['call', callId], queryFn: () => fetchCall(callId) });
  const readAgain = () => void client.invalidateQueries({ queryKey: ['call', callId] });
  useEffect(() => {
    if (answers > 0) void client.invalidateQueries({ queryKey: ['call', callId], exact: true });
  }, [answers, callId, client]);
  if (detail.isPending) return <Loading m="lg" />;
  if (detail.isError && !detail.data) return <Unreadable error={detail.error} onBack={onBack} onRetry={readAgain} />;
  const call = detail.data;
  const waits = call.state === 'pending' && ended === undefined;
  return (
    <article className="review" aria-label={t('review.digest')}>
      <Head call={call} onBack={onBack} waits={waits} />
      {ended && <Ended state={ended.state || call.state} by={ended.by} />}
      {!ended && !waits && <Ended state={call.state} by={call.decidedByName ?? ''} />}
      <div className="review-scroll">
        <CallBody call={call} />
        <div ref={end} />
        <CallContext call={call} />
      </div>
      {waits && <DecisionBar call={call} endOfText={end} onReadAgain={readAgain} onRecorded={() => onNext(call)} />}
    </article>
  );
}
