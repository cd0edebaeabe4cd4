import { useTranslation } from 'react-i18next';
import type { fetchHosts } from '../api/fleet.ts';
import { SheetBox } from '../app/sheet-box.tsx';
import { duration, useNow } from '../inbox/clock.ts';
import { plainVisible } from '../text/visible-text.ts';

type Host = Awaited<ReturnType<typeof fetchHosts>>[number];

/** Above this a host counts as not ready, and its gateway says so; below it a person need not look. */
const CLOCK_IN_STEP_MS = 1_000;

function Clock({ ahead }: { ahead: number }) {
  const { t } = useTranslation();
  if (Math.abs(ahead) < CLOCK_IN_STEP_MS) return t('fleet.clockGood');
  const seconds = Math.round(Math.abs(ahead) / 1_000);
  return <span className="warn-text">{t(ahead > 0 ? 'fleet.clockAhead' : 'fleet.clockBehind', { seconds })}</span>;
}

function Seen({ seenMs }: { seenMs: number | undefined }) {
  const { t } = useTranslation();
  const now = useNow();
  return seenMs === undefined ? t('fleet.never') : t('fleet.ago', { time: duration(t, Math.max(0, now - seenMs)) });
}

function SelfTest({ host }: { host: Host }) {
  const { t } = useTranslation();
  if (host.backends.length === 0) return <span className="tag bad">{t('fleet.selfTestNone')}</span>;
  return host.backends.map((backend) => (
    <span key={backend} className={backend === 'app-guard' ? 'tag bad' : 'tag good'}>
      {backend === 'app-guard' ? t('fleet.appGuard') : plainVisible(backend)}
    </span>
  ));
}

function HostRow({ host }: { host: Host }) {
  const { t } = useTranslation();
  const { pinnedClasses } = host;
  return (
    <tr data-host={host.host}>
      <td className="mono">{plainVisible(host.host)}</td>
      <td>
        <span className={host.ready ? 'tag good' : 'tag bad'}>{t(host.ready ? 'fleet.ready' : 'fleet.notReady')}</span>
        {host.reason !== '' && <div className="small wrap">{plainVisible(host.reason)}</div>}
      </td>
      <td>
        <SelfTest host={host} />
      </td>
      <td>{host.running}</td>
      <td className="small">
        {plainVisible(host.version ?? '—')}
        <div className="dim">{plainVisible(host.platform ?? '')}</div>
      </td>
      <td className="small">
        <Seen seenMs={host.seenMs} />
      </td>
      <td className="small">{host.clockAheadMs === undefined ? '—' : <Clock ahead={host.clockAheadMs} />}</td>
      <td className="small">{pinnedClasses === null ? '—' : pinnedClasses < 0 ? t('fleet.noPins') : pinnedClasses}</td>
    </tr>
  );
}

/** Hosts with health, self-test, version, clock and passkey pins. */
export function HostTable({ hosts }: { hosts: readonly Host[] }) {
  const { t } = useTranslation();
  const heads = [
    'call.host',
    'fleet.health',
    'fleet.selfTest',
    'fleet.running',
    'fleet.version',
    'fleet.seen',
    'fleet.clock',
    'fleet.pins',
  ] as const;
  return (
    <SheetBox>
      <table className="sheet">
        <thead>
          <tr>
            {heads.map((word) => (
              <th key={word}>{t(word)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {hosts.map((host) => (
            <HostRow key={host.host} host={host} />
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}
