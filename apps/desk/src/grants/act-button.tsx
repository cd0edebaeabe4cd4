import { Alert, Button } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';

type Props = {
  readonly label: string;
  readonly act: () => Promise<unknown>;
  /** What is read again afterwards. */
  readonly reads: string;
  readonly isTaking?: boolean;
};

/** A button that changes something at the gateway and stays with its error when that failed. */
export function ActButton({ label, act, reads, isTaking = false }: Props) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const doing = useMutation({
    mutationFn: act,
    onSuccess: () => client.invalidateQueries({ queryKey: [reads] }),
  });
  return (
    <>
      <Button
        size="compact-sm"
        variant="outline"
        {...(isTaking ? { color: 'red' } : {})}
        loading={doing.isPending}
        onClick={() => doing.mutate()}
      >
        {label}
      </Button>
      {doing.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {doing.error.message}
        </Alert>
      )}
    </>
  );
}
