import { Alert, Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { fetchTrusts, revokeTrust, type Trust, trustFolder } from '../api/layers.ts';
import { mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Sheet } from '../app/sheet.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { ActButton } from './act-button.tsx';

const EMPTY = { agent: '', host: '', path: '' };
const FIELDS = [
  ['agent', 'call.agent'],
  ['host', 'call.host'],
  ['path', 'trust.path'],
] as const;

function FolderForm() {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const [form, setForm] = useState(EMPTY);
  const give = useMutation({
    mutationFn: () => trustFolder(form, me.csrf),
    onSuccess: () => {
      setForm(EMPTY);
      return client.invalidateQueries({ queryKey: ['trusts'] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    give.mutate();
  };
  return (
    <form className="stack" onSubmit={submit} aria-label={t('trust.folder')}>
      <div className="field-grid">
        {FIELDS.map(([name, word]) => (
          <TextInput
            key={name}
            size="xs"
            label={t(word)}
            value={form[name]}
            maxLength={4_096}
            onChange={(event) => setForm({ ...form, [name]: event.currentTarget.value })}
          />
        ))}
        <Button
          type="submit"
          size="xs"
          variant="outline"
          disabled={Object.values(form).some((value) => value.trim() === '')}
          loading={give.isPending}
        >
          {t('trust.folder')}
        </Button>
      </div>
      <p className="dim small">{t('trust.folderHint')}</p>
      {give.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {give.error.message}
        </Alert>
      )}
    </form>
  );
}

function TrustRow({ trust }: { trust: Trust }) {
  const { t } = useTranslation();
  const me = useMe();
  return (
    <tr data-trust={trust.id}>
      <td className="wrap">
        <span className="tag">{t(`trust.what.${trust.what}`)}</span>{' '}
        <bdi className="mono">{plainVisible(trust.path)}</bdi>
        {trust.digest !== undefined && <div className="dim small mono wrap">{trust.digest}</div>}
      </td>
      <td>
        <bdi>{plainVisible([trust.agent ?? '', trust.host].filter(Boolean).join(' · '))}</bdi>
      </td>
      <td>{plainVisible(trust.by)}</td>
      <td>
        {mayOperate(me) && (
          <ActButton label={t('grants.revoke')} act={() => revokeTrust(trust.id, me.csrf)} reads="trusts" isTaking />
        )}
      </td>
    </tr>
  );
}

/** Files and folders of workspaces that people trust. */
export function Trusts() {
  const { t } = useTranslation();
  const trusts = useQuery({ queryKey: ['trusts'], queryFn: fetchTrusts });
  return (
    <section className="stack" aria-label={t('trust.title')}>
      <h2>{t('trust.title')}</h2>
      <Sheet
        query={trusts}
        none={<p className="dim">{t('trust.none')}</p>}
        heads={[t('trust.path'), t('trust.for'), t('grants.by')]}
        acts={t('grants.revoke')}
        row={(trust) => <TrustRow key={trust.id} trust={trust} />}
      />
      {mayOperate(useMe()) && <FolderForm />}
    </section>
  );
}
