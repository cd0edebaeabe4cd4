import { Alert, Button, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';

/** A button that needs a reason, which is recorded. What the page shows of the Guardian is read again afterwards. */
export function ReasonedAct({ label, act }: { label: string; act: (reason: string) => Promise<unknown> }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [reason, setReason] = useState('');
  const doing = useMutation({
    mutationFn: () => act(reason.trim()),
    onSuccess: () => {
      setReason('');
      return client.invalidateQueries({ queryKey: ['guardian'] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    doing.mutate();
  };
  return (
    <form onSubmit={submit} className="row">
      <TextInput
        size="xs"
        className="grow"
        aria-label={t('guardian.reason', { act: label })}
        placeholder={t('decide.reason')}
        value={reason}
        maxLength={1_000}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
      <Button type="submit" size="xs" variant="outline" disabled={reason.trim() === ''} loading={doing.isPending}>
        {label}
      </Button>
      {doing.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {doing.error.message}
        </Alert>
      )}
    </form>
  );
}
