import { Alert, Button, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { mayOperate, seesRecord } from '../api/me.ts';
import { closeSession, type Session } from '../api/sessions.ts';
import { useMe } from '../app/me-context.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { SessionCalls } from './session-calls.tsx';
import { SessionFiles } from './session-files.tsx';
import { SessionModes } from './session-modes.tsx';
import { SessionRequest } from './session-request.tsx';

function CloseForm({ session }: { session: Session }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const [reason, setReason] = useState('');
  const close = useMutation({
    mutationFn: () => closeSession(session.id, reason, me.csrf),
    onSuccess: () => client.invalidateQueries({ queryKey: ['sessions'] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    close.mutate();
  };
  if (session.state !== 'open' || !mayOperate(me)) return null;
  return (
    <form className="row close-form" onSubmit={submit}>
      <TextInput
        size="xs"
        className="grow"
        label={t('sessions.closeReason')}
        description={t('sessions.closeHint')}
        value={reason}
        maxLength={1_000}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
      <Button
        type="submit"
        size="xs"
        variant="outline"
        color="red"
        disabled={reason.trim() === ''}
        loading={close.isPending}
      >
        {t('sessions.close')}
      </Button>
      {close.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {close.error.message}
        </Alert>
      )}
    </form>
  );
}

/** One session: whom it acts for, what it may do, its calls. */
export function SessionDetail({ session }: { session: Session }) {
  const { t } = useTranslation();
  const me = useMe();
  const operates = mayOperate(me) && session.state === 'open';
  const facts = [
    ['call.principal', session.principal],
    ['call.host', session.host],
    ['review.project', session.project],
    [
      'review.mode',
      `${session.permissionMode} · ${t('review.approvalMode')} ${session.approvalMode}${session.eternal ? ` · ${t('sessions.unattended')}` : ''}`,
    ],
  ] as const;
  return (
    <article className="stack session" aria-label={session.id}>
      <section className="card stack">
        <div className="row spread">
          <h2>
            <bdi>{plainVisible(session.agent)}</bdi> <span className="mono small dim">{session.id}</span>
          </h2>
          <Link to="/changes">{t('sessions.changes')}</Link>
        </div>
        <dl className="facts">
          {facts.map(([word, value]) => (
            <FactLine key={word} name={t(word)} value={value} />
          ))}
          {session.parent !== undefined && (
            <>
              <dt>{t('sessions.parent')}</dt>
              <dd>
                <Link to="/sessions/$sessionId" params={{ sessionId: session.parent }} className="mono">
                  {session.parent}
                </Link>
              </dd>
            </>
          )}
        </dl>
        <SessionRequest session={session} mayState={operates} />
        {operates && <SessionModes session={session} />}
        <CloseForm session={session} />
      </section>
      <SessionCalls session={session.id} />
      {seesRecord(me) && <SessionFiles session={session.id} />}
    </article>
  );
}

function FactLine({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <bdi>{plainVisible(value)}</bdi>
      </dd>
    </>
  );
}
