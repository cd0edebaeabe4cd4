import { Alert, Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { createToken, fetchTokens, revokeToken, SCOPES, type Token } from '../api/admin.ts';
import { useMe } from '../app/me-context.tsx';
import { Sheet } from '../app/sheet.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { Choices } from './choices.tsx';

/** The new token's text, in the page only until it is put away. */
function Secret({ text, onHide }: { text: string; onHide: () => void }) {
  const { t } = useTranslation();
  return (
    <Alert role="status" title={t('admin.secret')}>
      <code className="wrap" data-secret>
        {text}
      </code>
      <div>
        <Button size="compact-sm" variant="subtle" onClick={onHide}>
          {t('admin.hide')}
        </Button>
      </div>
    </Alert>
  );
}

function TokenForm() {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const [label, setLabel] = useState('');
  const [days, setDays] = useState('30');
  const [roles, setRoles] = useState<readonly string[]>(me.roles.slice(0, 1));
  const [scopes, setScopes] = useState<readonly string[]>(['read']);
  const create = useMutation({
    mutationFn: () => createToken({ label, roles, scopes, days: Number(days) }, me.csrf),
    // SECURITY: the text stays nowhere but in this form.
    gcTime: 0,
    onSuccess: () => {
      setLabel('');
      return client.invalidateQueries({ queryKey: ['tokens'] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const fits = label.trim() !== '' && /^[1-9]\d{0,2}$/.test(days) && roles.length > 0 && scopes.length > 0;
  return (
    <form className="stack" onSubmit={submit}>
      {create.data && <Secret text={create.data.text} onHide={() => create.reset()} />}
      <div className="field-grid">
        <TextInput
          size="xs"
          label={t('admin.label')}
          value={label}
          maxLength={100}
          onChange={(event) => setLabel(event.currentTarget.value)}
        />
        <TextInput
          size="xs"
          inputMode="numeric"
          label={t('admin.days')}
          value={days}
          maxLength={3}
          onChange={(event) => setDays(event.currentTarget.value)}
        />
      </div>
      <Choices title={t('admin.roles')} all={me.roles} chosen={roles} onChange={setRoles} />
      <Choices title={t('admin.scopes')} all={SCOPES} chosen={scopes} onChange={setScopes} />
      {create.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {create.error.message}
        </Alert>
      )}
      <div className="row">
        <Button type="submit" size="xs" loading={create.isPending} disabled={!fits}>
          {t('admin.create')}
        </Button>
      </div>
    </form>
  );
}

function TokenRow({ token }: { token: Token }) {
  const { t, i18n } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => revokeToken(token.id, me.csrf),
    onSuccess: () => client.invalidateQueries({ queryKey: ['tokens'] }),
  });
  return (
    <tr data-token={token.id}>
      <td>
        <bdi>{plainVisible(token.label)}</bdi>
        <div className="dim small">
          <bdi>{plainVisible(token.subject)}</bdi>
        </div>
      </td>
      <td>{token.roles.join(', ')}</td>
      <td>{token.scopes.join(', ')}</td>
      <td>{new Intl.DateTimeFormat(i18n.language, { dateStyle: 'medium' }).format(token.expires_ms)}</td>
      <td>
        {token.revoked_ms === null ? (
          <Button
            size="compact-sm"
            variant="outline"
            color="red"
            loading={revoke.isPending}
            onClick={() => revoke.mutate()}
          >
            {t('admin.revoke')}
          </Button>
        ) : (
          <span className="tag bad">{t('admin.revoked')}</span>
        )}
        {revoke.isError && <p role="alert">{revoke.error.message}</p>}
      </td>
    </tr>
  );
}

/** API tokens: of the signed-in person, or of everybody for admins and auditors. */
export function Tokens() {
  const { t } = useTranslation();
  const tokens = useQuery({ queryKey: ['tokens'], queryFn: fetchTokens });
  return (
    <section className="card stack" aria-label={t('admin.tokens')}>
      <h2>{t('admin.tokens')}</h2>
      <Sheet
        query={tokens}
        none={<p className="dim">{t('admin.noTokens')}</p>}
        heads={[t('admin.label'), t('admin.roles'), t('admin.scopes'), t('admin.expires')]}
        acts={t('admin.revoke')}
        row={(token) => <TokenRow key={token.id} token={token} />}
      />
      <TokenForm />
    </section>
  );
}
