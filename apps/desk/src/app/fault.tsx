import { Alert } from '@mantine/core';
import type { ErrorComponentProps } from '@tanstack/react-router';
import { useTranslation } from 'react-i18next';

/** Shown in place of a page that threw. */
export function Fault({ error }: ErrorComponentProps) {
  const { t } = useTranslation();
  return (
    <div className="page">
      <Alert color="red" role="alert" title={t('app.fault')}>
        {error instanceof Error ? error.message : String(error)}
      </Alert>
    </div>
  );
}

/** Shown for an unknown address. */
export function NotFound() {
  const { t } = useTranslation();
  return <p className="empty">{t('app.notFound')}</p>;
}
