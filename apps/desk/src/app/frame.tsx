import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { FreezeBanner } from '../fleet/freeze-banner.tsx';
import { useWaiting } from '../live/live-context.tsx';
import { NewCallAlarm } from './new-call-alarm.tsx';
import { SettingsMenu } from './settings-menu.tsx';

/** Places of the rail, in order. */
const PLACES = [
  ['/', 'nav.inbox'],
  ['/sessions', 'nav.sessions'],
  ['/changes', 'nav.changes'],
  ['/fleet', 'nav.fleet'],
  ['/grants', 'nav.grants'],
  ['/guardian', 'nav.guardian'],
  ['/policy', 'nav.policy'],
  ['/audit', 'nav.audit'],
  ['/insights', 'nav.insights'],
  ['/admin', 'nav.admin'],
  ['/you', 'nav.you'],
] as const;

function Rail() {
  const { t } = useTranslation();
  const { calls, line, loaded } = useWaiting();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const places = useRef<HTMLUListElement>(null);
  // On a phone the places are a row that is wider than the page.
  useEffect(() => {
    if (path === '') return;
    places.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [path]);
  const isHere = (to: string) => (to === '/' ? path === '/' || path.startsWith('/calls/') : path.startsWith(to));
  return (
    <header className="rail">
      <span className="brand">{t('app.name')}</span>
      <nav aria-label={t('nav.label')}>
        <ul ref={places}>
          {PLACES.map(([to, word]) => (
            <li key={to}>
              <Link to={to} aria-current={isHere(to) ? 'page' : undefined}>
                {t(word)}
                {to === '/' && loaded && calls.length > 0 && <span className="tag accent">{calls.length}</span>}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <div className="foot">
        <span className="line" data-line={line} role="status">
          {t(`line.${line}`)}
        </span>
        <SettingsMenu />
      </div>
    </header>
  );
}

function Title() {
  const { calls } = useWaiting();
  const { t } = useTranslation();
  useEffect(() => {
    document.title = calls.length > 0 ? `(${calls.length}) ${t('app.name')}` : t('app.name');
  }, [calls.length, t]);
  return null;
}

/** Rail, banners and the open page. */
export function Frame() {
  const { t } = useTranslation();
  const { line } = useWaiting();
  return (
    <div className="frame">
      <a className="skip" href="#content">
        {t('nav.skip')}
      </a>
      <Rail />
      <main className="place" id="content" tabIndex={-1}>
        {line === 'offline' && (
          <div className="banner bad" role="alert">
            {t('line.offlineText')}
          </div>
        )}
        <FreezeBanner />
        <Outlet />
      </main>
      <Title />
      <NewCallAlarm />
    </div>
  );
}
