import { useTranslation } from 'react-i18next';
import { plainVisible } from '../text/visible-text.ts';

type Stated = { readonly requestText: string; readonly requestBy?: string | undefined };

/** What an agent was asked to do, and who says so: a person at the desk, or only the agent itself. */
export function StatedRequest({ session: { requestText, requestBy } }: { session: Stated }) {
  const { t } = useTranslation();
  if (requestText === '') return <p className="dim">{t('review.noRequest')}</p>;
  return (
    <>
      <blockquote className="wrap pre">
        <bdi>{plainVisible(requestText)}</bdi>
      </blockquote>
      <p className="dim small">
        {requestBy === undefined ? t('review.requestBy') : t('request.by', { by: plainVisible(requestBy) })}
      </p>
    </>
  );
}
