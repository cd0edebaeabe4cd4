import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useTranslation } from 'react-i18next';
import { fetchFreeze } from '../api/fleet.ts';
import { plainVisible } from '../text/visible-text.ts';

/** How often the state of the kill switch is asked for. */
const EVERY_MS = 5_000;

/** The state of the kill switch, shared by banner and fleet page. */
export const useFreeze = () => useQuery({ queryKey: ['freeze'], queryFn: fetchFreeze, refetchInterval: EVERY_MS });

/** Says on every page what is frozen and which hosts have not confirmed it. */
export function FreezeBanner() {
  const { t } = useTranslation();
  const { data } = useFreeze();
  if (!data || data.freezes.length === 0) return null;
  return (
    <div className="banner bad" role="alert">
      <strong>{t('freeze.active')}</strong>{' '}
      {data.freezes.map(({ scope, by }) => `${plainVisible(scope)} (${plainVisible(by)})`).join(', ')}
      {data.unconfirmed.length > 0 && ` · ${t('freeze.unconfirmed', { hosts: data.unconfirmed.join(', ') })}`}{' '}
      <Link to="/fleet">{t('nav.fleet')}</Link>
    </div>
  );
}
