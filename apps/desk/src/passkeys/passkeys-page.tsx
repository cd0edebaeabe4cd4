import { Alert, Button, TextInput } from '@mantine/core';
import { startRegistration } from '@simplewebauthn/browser';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { addPasskey, fetchPasskeys, type Passkey, passkeyOptions, removePasskey } from '../api/passkeys.ts';
import { useMe } from '../app/me-context.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { PasskeyProblem } from './passkey-problem.tsx';

type Options = Parameters<typeof startRegistration>[0]['optionsJSON'];

function Person() {
  const { t } = useTranslation();
  const me = useMe();
  const facts = [
    ['you.name', me.name],
    ['you.roles', me.roles.join(', ')],
    ['you.groups', me.groups.join(', ') || '–'],
  ] as const;
  return (
    <dl className="facts">
      {facts.map(([word, value]) => (
        <div key={word} className="row">
          <dt className="dim">{t(word)}</dt>
          <dd>
            <bdi>{plainVisible(value)}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Line({ passkey, onRemove, busy }: { passkey: Passkey; onRemove: () => void; busy: boolean }) {
  const { t, i18n } = useTranslation();
  const me = useMe();
  const times = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'medium', timeStyle: 'short' });
  return (
    <li className="card row spread" data-passkey={passkey.credential_id}>
      <span>
        <bdi>{plainVisible(passkey.label)}</bdi>{' '}
        <span className="small dim">
          {passkey.person === me.name ? '' : `${plainVisible(passkey.person)} · `}
          {t('passkey.added', { time: times.format(passkey.added_ms) })}
        </span>
      </span>
      <span className="row">
        <span className={passkey.listed ? 'tag good' : 'tag'}>
          {passkey.listed && passkey.until_ms !== undefined
            ? t('passkey.until', { time: times.format(passkey.until_ms) })
            : t(passkey.listed ? 'passkey.listed' : 'passkey.unlisted')}
        </span>
        <Button size="compact-xs" variant="subtle" color="red" disabled={busy} onClick={onRemove}>
          {t('passkey.remove', { label: plainVisible(passkey.label) })}
        </Button>
      </span>
    </li>
  );
}

function Enrol({ onDone }: { onDone: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const [label, setLabel] = useState('');
  const enrol = useMutation({
    mutationFn: async () => {
      const options = (await passkeyOptions(me.csrf)) as Options;
      return addPasskey(label.trim(), await startRegistration({ optionsJSON: options }), me.csrf);
    },
    onSuccess: () => {
      setLabel('');
      onDone();
    },
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (label.trim() !== '') enrol.mutate();
      }}
    >
      {enrol.isError && <PasskeyProblem error={enrol.error} />}
      <div className="row">
        <TextInput
          size="xs"
          label={t('passkey.label')}
          placeholder={t('passkey.labelHint')}
          value={label}
          onChange={(event) => setLabel(event.currentTarget.value)}
          maxLength={100}
        />
        <Button type="submit" size="xs" disabled={label.trim() === ''} loading={enrol.isPending}>
          {t('passkey.add')}
        </Button>
      </div>
    </form>
  );
}

/** Who is signed in, and his passkeys. */
export function PasskeysPage() {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const found = useQuery({ queryKey: ['passkeys'], queryFn: fetchPasskeys });
  const readAgain = () => void client.invalidateQueries({ queryKey: ['passkeys'] });
  const remove = useMutation({
    mutationFn: (credential: string) => removePasskey(credential, me.csrf),
    onSuccess: readAgain,
  });
  return (
    <div className="page stack">
      <h1>{t('you.title')}</h1>
      <Person />
      <h2>{t('passkey.title')}</h2>
      <p className="dim">{t('passkey.about')}</p>
      {found.isError && (
        <Alert color="red" role="alert" title={t('app.problem')}>
          {found.error.message}
        </Alert>
      )}
      {remove.isError && <PasskeyProblem error={remove.error} />}
      {found.data?.length === 0 && <p className="dim">{t('passkey.noneYet')}</p>}
      <ul className="plain stack">
        {found.data?.map((passkey) => (
          <Line
            key={passkey.credential_id}
            passkey={passkey}
            busy={remove.isPending}
            onRemove={() => remove.mutate(passkey.credential_id)}
          />
        ))}
      </ul>
      <Enrol onDone={readAgain} />
    </div>
  );
}
