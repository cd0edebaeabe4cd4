import { Alert, MantineProvider } from '@mantine/core';
import type { QueryClient } from '@tanstack/react-query';
import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import type { i18n } from 'i18next';
import { I18nextProvider, useTranslation } from 'react-i18next';
import { fetchMe } from '../api/me.ts';
import { ApiError } from '../api/request.ts';
import { fetchSignIn } from '../api/sign-in.ts';
import { LiveProvider } from '../live/live-context.tsx';
import { Loading } from './loading.tsx';
import { MeProvider } from './me-context.tsx';
import type { makeRouter } from './routes.tsx';

type Parts = {
  readonly words: i18n;
  readonly client: QueryClient;
  readonly router: ReturnType<typeof makeRouter>;
};

function SignedOut() {
  const { t } = useTranslation();
  const ways = useQuery({ queryKey: ['sign-in'], queryFn: fetchSignIn });
  const here = encodeURIComponent(window.location.pathname + window.location.search);
  return (
    <Alert title={t('app.signedOut')}>
      {ways.data?.oidc && <a href={`/v1/oidc/login?to=${here}`}>{t('signIn.oidc')}</a>}
      {ways.data?.links !== false && <p>{t('app.signedOutText')}</p>}
    </Alert>
  );
}

function SignedIn({ router }: { router: Parts['router'] }) {
  const { t } = useTranslation();
  const me = useQuery({ queryKey: ['me'], queryFn: fetchMe, retry: false, staleTime: 60_000 });
  if (me.isSuccess)
    return (
      <MeProvider value={me.data}>
        <LiveProvider>
          <RouterProvider router={router} />
        </LiveProvider>
      </MeProvider>
    );
  const signedOut = me.error instanceof ApiError && me.error.status === 401;
  return (
    <main className="page">
      <h1 className="only-heard">{t('app.name')}</h1>
      {me.isPending && <Loading />}
      {signedOut && <SignedOut />}
      {me.isError && !signedOut && (
        <Alert color="red" role="alert" title={t('app.unreachable')}>
          {me.error.message}
        </Alert>
      )}
    </main>
  );
}

/**
 * The desk. No style element is written (`withCssVariables`, `withGlobalClasses`), because the gateway's content security
 * policy takes styles from files only.
 */
export function DeskApp({ words, client, router }: Parts) {
  return (
    <I18nextProvider i18n={words}>
      <MantineProvider defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
        <QueryClientProvider client={client}>
          <SignedIn router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </I18nextProvider>
  );
}
