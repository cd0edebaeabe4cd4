import { Alert, Button } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Loading } from './loading.tsx';

/** A page with its title. */
export function Page({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="page">
      <div className="stack">
        <h1>{title}</h1>
        {children}
      </div>
    </div>
  );
}

/** What was read, or that it is being read, or why it could not be. Old data stays visible beside an error. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  const { t } = useTranslation();
  return (
    <>
      {query.isError && (
        <Alert color="red" role="alert" title={t('app.problem')}>
          <p>{query.error.message}</p>
          <Button size="compact-sm" variant="subtle" onClick={() => void query.refetch()}>
            {t('app.retry')}
          </Button>
        </Alert>
      )}
      {query.isPending && <Loading />}
      {query.data !== undefined && children(query.data)}
    </>
  );
}
