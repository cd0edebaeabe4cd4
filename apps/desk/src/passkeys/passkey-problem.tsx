import { Alert } from '@mantine/core';
import { WebAuthnError } from '@simplewebauthn/browser';
import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { ApiError } from '../api/request.ts';
import { fetchSignIn } from '../api/sign-in.ts';

const SIGN_IN_AGAIN = 'countersign.gateway.sign_in_again';

/** Leads to a fresh sign-in and back to this page; without an identity provider it says how to get a new link. */
function SignInAgain() {
  const { t } = useTranslation();
  const ways = useQuery({ queryKey: ['sign-in'], queryFn: fetchSignIn });
  const back = encodeURIComponent(window.location.pathname + window.location.search);
  if (ways.data?.oidc) return <a href={`/v1/oidc/login?fresh=1&to=${back}`}>{t('signIn.again')}</a>;
  return <p>{t('signIn.newLink')}</p>;
}

/** What went wrong around a passkey or a sensitive act, in the person's language where this page knows it. */
export function useProblemText(): (error: Error) => string {
  const { t } = useTranslation();
  return (error) => {
    if (error.message === 'passkey.mismatch' || error.message === 'passkey.none') return t(error.message);
    if (error instanceof WebAuthnError || error.name === 'NotAllowedError') return t('passkey.cancelled');
    return error.message;
  };
}

export function PasskeyProblem({ error }: { error: Error }) {
  const { t } = useTranslation();
  const textOf = useProblemText();
  return (
    <Alert color="red" role="alert" p="xs" title={t('passkey.failed')}>
      <p>{textOf(error)}</p>
      {error instanceof ApiError && error.code === SIGN_IN_AGAIN && <SignInAgain />}
    </Alert>
  );
}
