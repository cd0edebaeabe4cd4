import { Alert, Button, Checkbox, NativeSelect } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import {
  APPROVAL_MODES,
  type Ceilings,
  changeModes,
  fetchCeilings,
  type Modes,
  PERMISSION_MODES,
  type Session,
} from '../api/sessions.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded } from '../app/page-state.tsx';

const rank = (mode: string): number => (PERMISSION_MODES as readonly string[]).indexOf(mode);

function ModesForm({ session, ceilings }: { session: Session; ceilings: Ceilings }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const [form, setForm] = useState<Modes>(session);
  const { permissionMode, approvalMode, eternal } = form;
  const save = useMutation({
    mutationFn: () => changeModes(session.id, { permissionMode, approvalMode, eternal }, me.csrf),
    onSuccess: () => client.invalidateQueries({ queryKey: ['sessions'] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const same =
    permissionMode === session.permissionMode && approvalMode === session.approvalMode && eternal === session.eternal;
  return (
    <form className="stack" onSubmit={submit} aria-label={t('modes.title')}>
      <div className="field-grid">
        <NativeSelect
          size="xs"
          label={t('modes.permission')}
          value={permissionMode}
          onChange={(event) => setForm({ ...form, permissionMode: event.currentTarget.value })}
          data={PERMISSION_MODES.map((value) => ({ value, label: value, disabled: rank(value) > rank(ceilings.mode) }))}
        />
        <NativeSelect
          size="xs"
          label={t('modes.approval')}
          value={approvalMode}
          onChange={(event) => setForm({ ...form, approvalMode: event.currentTarget.value })}
          data={APPROVAL_MODES.map((value) => ({
            value,
            label: value,
            disabled: value === 'full_access' && !ceilings.fullAccess,
          }))}
        />
        <Checkbox
          size="xs"
          label={t('modes.eternal')}
          checked={eternal}
          disabled={!ceilings.eternal && !eternal}
          onChange={(event) => setForm({ ...form, eternal: event.currentTarget.checked })}
        />
        <Button type="submit" size="xs" variant="outline" disabled={same} loading={save.isPending}>
          {t('modes.change')}
        </Button>
      </div>
      <p className="dim small">
        {t('modes.ceilings', {
          mode: ceilings.mode,
          full: t(ceilings.fullAccess ? 'modes.allowed' : 'modes.notAllowed'),
          eternal: t(ceilings.eternal ? 'modes.allowed' : 'modes.notAllowed'),
        })}
      </p>
      {eternal && !session.eternal && <p className="warn-text">{t('modes.eternalText')}</p>}
      {save.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {save.error.message}
        </Alert>
      )}
    </form>
  );
}

/** Modes of an open session, inside the ceilings of the policy. Made anew when somebody else changed them. */
export function SessionModes({ session }: { session: Session }) {
  const ceilings = useQuery({ queryKey: ['ceilings'], queryFn: fetchCeilings });
  const key = `${session.permissionMode} ${session.approvalMode} ${session.eternal}`;
  return <Loaded query={ceilings}>{(found) => <ModesForm key={key} session={session} ceilings={found} />}</Loaded>;
}
