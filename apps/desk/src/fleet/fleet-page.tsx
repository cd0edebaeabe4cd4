import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchHosts } from '../api/fleet.ts';
import { Loaded, Page } from '../app/page-state.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { useFreeze } from './freeze-banner.tsx';
import { FreezePanel } from './freeze-panel.tsx';

const HOSTS_EVERY_MS = 5_000;

function HostTable({ hosts }: { hosts: Awaited<ReturnType<typeof fetchHosts>> }) {
  const { t } = useTranslation();
  return (
    <div className="sheet-wrap">
      <table className="sheet">
        <thead>
          <tr>
            <th>{t('call.host')}</th>
            <th>{t('fleet.health')}</th>
            <th>{t('fleet.backends')}</th>
            <th>{t('fleet.running')}</th>
            <th>{t('fleet.reason')}</th>
          </tr>
        </thead>
        <tbody>
          {hosts.map((host) => (
            <tr key={host.host}>
              <td className="mono">{plainVisible(host.host)}</td>
              <td>
                <span className={host.ready ? 'tag good' : 'tag bad'}>
                  {t(host.ready ? 'fleet.ready' : 'fleet.notReady')}
                </span>
              </td>
              <td>{host.backends.map(plainVisible).join(', ')}</td>
              <td>{host.running}</td>
              <td className="wrap">{plainVisible(host.reason)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Hosts with their health, and the kill switch. */
export function FleetPage() {
  const { t } = useTranslation();
  const hosts = useQuery({ queryKey: ['hosts'], queryFn: fetchHosts, refetchInterval: HOSTS_EVERY_MS });
  const freeze = useFreeze();
  return (
    <Page title={t('nav.fleet')}>
      <Loaded query={freeze}>{(state) => <FreezePanel state={state} />}</Loaded>
      <Loaded query={hosts}>
        {(found) => (found.length === 0 ? <p className="empty">{t('fleet.none')}</p> : <HostTable hosts={found} />)}
      </Loaded>
    </Page>
  );
}
