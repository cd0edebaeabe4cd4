import { Alert, Button, Textarea } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type Session, stateRequest } from '../api/sessions.ts';
import { useMe } from '../app/me-context.tsx';
import { StatedRequest } from '../review/stated-request.tsx';

const MAX_REQUEST = 20_000;

function RequestForm({ session }: { session: Session }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const [text, setText] = useState('');
  const state = useMutation({
    mutationFn: () => stateRequest(session.id, text, me.csrf),
    onSuccess: () => {
      setText('');
      return client.invalidateQueries({ queryKey: ['sessions'] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    state.mutate();
  };
  return (
    <form className="row close-form" onSubmit={submit}>
      <Textarea
        size="xs"
        className="grow"
        label={t('request.own')}
        description={t('request.hint')}
        value={text}
        maxLength={MAX_REQUEST}
        minRows={1}
        maxRows={6}
        autosize
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" size="xs" variant="outline" disabled={text.trim() === ''} loading={state.isPending}>
        {t('request.state')}
      </Button>
      {state.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {state.error.message}
        </Alert>
      )}
    </form>
  );
}

/** What a session is for and who said so; an operator may say it in their own words. */
export function SessionRequest({ session, mayState }: { session: Session; mayState: boolean }) {
  const { t } = useTranslation();
  return (
    <div className="stack">
      <h3>{t('review.request')}</h3>
      <StatedRequest session={session} />
      {mayState && <RequestForm session={session} />}
    </div>
  );
}
