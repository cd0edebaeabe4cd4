import { Loader } from '@mantine/core';
import { useTranslation } from 'react-i18next';

/** Says that something is being read, to eyes and to a screen reader. */
export function Loading({ m }: { m?: 'md' | 'lg' }) {
  const { t } = useTranslation();
  return <Loader size="sm" role="status" aria-label={t('app.loading')} {...(m ? { m } : {})} />;
}
