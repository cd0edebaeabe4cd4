import { Alert, Button, Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type FreezeState, liftFreeze, setFreeze } from '../api/fleet.ts';
import { mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { plainVisible } from '../text/visible-text.ts';

/** Freezes and lifts; the answer of the gateway replaces what is shown. */
function useFreezeChange() {
  const me = useMe();
  const client = useQueryClient();
  return useMutation({
    mutationFn: (wish: { scope: string; reason: string; stopRunning: boolean; lift: boolean }) => {
      const { lift, ...rest } = wish;
      return lift ? liftFreeze(wish.scope, wish.reason, me.csrf) : setFreeze(rest, me.csrf);
    },
    onSuccess: (state) => client.setQueryData(['freeze'], state),
  });
}

function Active({
  state,
  reason,
  change,
}: {
  state: FreezeState;
  reason: string;
  change: ReturnType<typeof useFreezeChange>;
}) {
  const { t, i18n } = useTranslation();
  const may = mayOperate(useMe());
  const time = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'medium' });
  if (state.freezes.length === 0) return <p className="dim">{t('freeze.none')}</p>;
  return (
    <ul className="plain stack">
      {state.freezes.map((freeze) => (
        <li key={freeze.scope} className="row spread">
          <span className="wrap">
            <span className="tag bad">{plainVisible(freeze.scope)}</span> <bdi>{plainVisible(freeze.reason)}</bdi>{' '}
            <span className="dim small">
              {plainVisible(freeze.by)} · {time.format(freeze.setMs)}
            </span>
          </span>
          {may && (
            <Button
              size="compact-sm"
              variant="outline"
              disabled={reason.trim() === '' || change.isPending}
              onClick={() => change.mutate({ scope: freeze.scope, reason, stopRunning: false, lift: true })}
            >
              {t('freeze.lift', { scope: freeze.scope })}
            </Button>
          )}
        </li>
      ))}
    </ul>
  );
}

const KINDS = ['all', 'host', 'agent', 'session'] as const;
type Kind = (typeof KINDS)[number];

function ScopeFields({
  kind,
  id,
  hosts,
  onChange,
}: {
  kind: Kind;
  id: string;
  hosts: readonly string[];
  onChange: (scope: { kind: Kind; id: string }) => void;
}) {
  const { t } = useTranslation();
  const choose = (value: string) => {
    const chosen = KINDS.find((one) => one === value) ?? 'all';
    onChange({ kind: chosen, id: chosen === 'host' ? (hosts[0] ?? '') : '' });
  };
  return (
    <>
      <NativeSelect
        size="xs"
        label={t('freeze.kind')}
        value={kind}
        onChange={(event) => choose(event.currentTarget.value)}
        data={KINDS.map((value) => ({ value, label: t(`freeze.kind.${value}`) }))}
      />
      {kind === 'host' && (
        <NativeSelect
          size="xs"
          label={t('freeze.id')}
          value={id}
          onChange={(event) => onChange({ kind, id: event.currentTarget.value })}
          data={[...hosts]}
        />
      )}
      {(kind === 'agent' || kind === 'session') && (
        <TextInput
          size="xs"
          label={t('freeze.id')}
          value={id}
          maxLength={64}
          onChange={(event) => onChange({ kind, id: event.currentTarget.value })}
        />
      )}
    </>
  );
}

/** What is frozen, and the switch for people who may. Both ways need a reason, which is recorded. */
export function FreezePanel({ state, hosts }: { state: FreezeState; hosts: readonly string[] }) {
  const { t } = useTranslation();
  const may = mayOperate(useMe());
  const [{ kind, id }, setScope] = useState<{ kind: Kind; id: string }>({ kind: 'all', id: '' });
  const scope = kind === 'all' ? kind : `${kind}:${id.trim()}`;
  const [reason, setReason] = useState('');
  const [stopRunning, setStopRunning] = useState(false);
  const change = useFreezeChange();
  const freeze = (event: FormEvent) => {
    event.preventDefault();
    change.mutate({ scope, reason, stopRunning, lift: false });
  };
  return (
    <section className="card stack" aria-label={t('freeze.title')}>
      <h2>{t('freeze.title')}</h2>
      <Active state={state} reason={reason} change={change} />
      {state.unconfirmed.length > 0 && state.freezes.length > 0 && (
        <p className="warn-text">{t('freeze.unconfirmed', { hosts: state.unconfirmed.join(', ') })}</p>
      )}
      {change.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {change.error.message}
        </Alert>
      )}
      {may ? (
        <form onSubmit={freeze} className="row freeze-form">
          <ScopeFields kind={kind} id={id} hosts={hosts} onChange={setScope} />
          <TextInput
            size="xs"
            className="grow"
            label={t('decide.reason')}
            description={t('freeze.reasonHint')}
            value={reason}
            maxLength={1_000}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          <Checkbox
            size="xs"
            label={t('freeze.stop')}
            checked={stopRunning}
            onChange={(event) => setStopRunning(event.currentTarget.checked)}
          />
          <Button
            type="submit"
            color="red"
            size="xs"
            disabled={reason.trim() === '' || scope.endsWith(':')}
            loading={change.isPending}
          >
            {t('freeze.set')}
          </Button>
        </form>
      ) : (
        <p className="dim small">{t('app.forbidden')}</p>
      )}
    </section>
  );
}
