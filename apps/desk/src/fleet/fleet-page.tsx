import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchHosts } from '../api/fleet.ts';
import { Loaded, Page } from '../app/page-state.tsx';
import { useFreeze } from './freeze-banner.tsx';
import { FreezePanel } from './freeze-panel.tsx';
import { HostTable } from './host-table.tsx';

const HOSTS_EVERY_MS = 5_000;

/** Hosts with their health, and the kill switch. */
export function FleetPage() {
  const { t } = useTranslation();
  const hosts = useQuery({ queryKey: ['hosts'], queryFn: fetchHosts, refetchInterval: HOSTS_EVERY_MS });
  const freeze = useFreeze();
  return (
    <Page title={t('nav.fleet')}>
      <Loaded query={freeze}>
        {(state) => <FreezePanel state={state} hosts={(hosts.data ?? []).map(({ host }) => host)} />}
      </Loaded>
      <Loaded query={hosts}>
        {(found) => (found.length === 0 ? <p className="empty">{t('fleet.none')}</p> : <HostTable hosts={found} />)}
      </Loaded>
    </Page>
  );
}
