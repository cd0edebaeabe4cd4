import { Alert } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useTranslation } from 'react-i18next';
import { type CallContext as Context, fetchAlike } from '../api/call-context.ts';
import type { CallDetail } from '../api/calls.ts';
import { plainVisible } from '../text/visible-text.ts';
import { Quorum } from './quorum.tsx';
import { StateName } from './state-name.tsx';
import { StatedRequest } from './stated-request.tsx';
import { TouchFacts } from './touch-facts.tsx';
import { useCallContext } from './use-call-context.ts';

function Reasons({ call, context }: { call: CallDetail; context: Context | undefined }) {
  const { t } = useTranslation();
  const decisive = context?.command?.decisive ?? [];
  const rules = context?.present?.rules ?? [];
  const numbered = new Set(decisive.flatMap(({ reasons }) => reasons));
  const others = (call.view.reasons ?? []).filter((reason) => !numbered.has(reason));
  return (
    <section className="card">
      <h2>{t('review.why')}</h2>
      {context?.command && context.command.problems.length > 0 && (
        <p className="warn-text">{t('review.partsUnknown')}</p>
      )}
      <ol className="reasons">
        {decisive.map((part, index) => (
          <li key={`${part.start}-${part.end}`} value={index + 1} className={part.effect}>
            {part.reasons.map((reason) => (
              <div key={reason} className="wrap">
                <bdi>{plainVisible(reason)}</bdi>
              </div>
            ))}
          </li>
        ))}
      </ol>
      <ul className="plain">
        {others.map((reason) => (
          <li key={reason} className="wrap">
            <bdi>{plainVisible(reason)}</bdi>
          </li>
        ))}
      </ul>
      {rules.length > 0 && (
        <p className="small">
          <span className="dim">{t('review.rules')}:</span>{' '}
          {rules.map((rule) => (
            <code key={rule} className="tag">
              {plainVisible(rule)}
            </code>
          ))}
        </p>
      )}
    </section>
  );
}

/** The Guardian's opinion in words; another category than an opinion is shown as it is. */
function useVerdictName(): (verdict: string) => string {
  const { t, i18n } = useTranslation();
  return (verdict) =>
    i18n.exists(`guardian.${verdict}`) ? t(`guardian.${verdict}` as 'guardian.approve') : plainVisible(verdict);
}

function Guardian({ guardian }: { guardian: NonNullable<Context['guardian']> }) {
  const { t } = useTranslation();
  return (
    <section className="card">
      <h2>{t('review.guardian')}</h2>
      <p>
        <span
          className={`tag ${guardian.verdict === 'approve' ? 'good' : guardian.verdict === 'deny' ? 'bad' : 'warn'}`}
        >
          {useVerdictName()(guardian.verdict)}
        </span>{' '}
        <span className="dim small">{plainVisible(guardian.model)}</span>
      </p>
      <p className="wrap pre">
        <bdi>{plainVisible(guardian.reason)}</bdi>
      </p>
      <p className="dim small">{t('guardian.advises')}</p>
    </section>
  );
}

function Session({ session, chain }: { session: NonNullable<Context['session']>; chain: readonly string[] }) {
  const { t } = useTranslation();
  return (
    <section className="card">
      <h2>{t('review.request')}</h2>
      <StatedRequest session={session} />
      <dl className="facts">
        <dt>{t(chain.length > 1 ? 'review.chain' : 'call.session')}</dt>
        <dd className="mono small">{(chain.length > 0 ? chain : [session.id]).map(plainVisible).join(' → ')}</dd>
        <dt>{t('call.principal')}</dt>
        <dd>
          <bdi>{plainVisible(session.principal)}</bdi>
        </dd>
        <dt>{t('review.project')}</dt>
        <dd className="mono">
          <bdi>{plainVisible(session.project)}</bdi>
        </dd>
        <dt>{t('review.mode')}</dt>
        <dd>
          {session.permissionMode} · {t('review.approvalMode')} {session.approvalMode}
        </dd>
        {session.model !== '' && (
          <>
            <dt>{t('review.model')}</dt>
            <dd>
              <bdi>{plainVisible(session.model)}</bdi>
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function History({ callId }: { callId: string }) {
  const { t, i18n } = useTranslation();
  const alike = useQuery({ queryKey: ['call', callId, 'alike'], queryFn: () => fetchAlike(callId) });
  if (!alike.data) return null;
  const time = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'short' });
  return (
    <section className="card">
      <h2>{t('review.history')}</h2>
      {alike.data.length === 0 && <p className="dim">{t('review.noHistory')}</p>}
      <ul className="plain history">
        {alike.data.map((call) => (
          <li key={call.callId}>
            <span className={`tag ${call.state === 'done' ? 'good' : call.state === 'denied' ? 'bad' : ''}`}>
              <StateName state={call.state} />
            </span>
            <Link to="/calls/$callId" params={{ callId: call.callId }} className="mono cut grow">
              <bdi>{plainVisible(call.summary.slice(0, 300))}</bdi>
            </Link>
            <span className="dim small">
              {call.decidedByName === undefined ? '' : `${plainVisible(call.decidedByName)} · `}
              {time.format(call.receivedMs)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Why the call asks, what it could touch, who is behind it and how such calls ended before. */
export function CallContext({ call }: { call: CallDetail }) {
  const { t } = useTranslation();
  const context = useCallContext(call);
  return (
    <div className="stack">
      {context.isError && (
        <Alert color="red" role="alert" p="xs" title={t('app.problem')}>
          {context.error.message}
        </Alert>
      )}
      {call.approval && <Quorum approval={call.approval} />}
      <Reasons call={call} context={context.data} />
      <TouchFacts call={call} limits={context.data?.limits} />
      {context.data?.guardian && <Guardian guardian={context.data.guardian} />}
      {context.data?.session && (
        <Session session={context.data.session} chain={context.data.limits?.chain ?? call.view.chain ?? []} />
      )}
      <History callId={call.callId} />
    </div>
  );
}
