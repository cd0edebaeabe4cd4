import { useTranslation } from 'react-i18next';
import type { CallContext } from '../api/call-context.ts';
import type { CallDetail } from '../api/calls.ts';
import { duration } from '../inbox/clock.ts';
import { plainVisible } from '../text/visible-text.ts';

const APP_GUARD = 'app-guard';
const FILE_TOOLS = ['read', 'write', 'edit', 'delete', 'search'];

/** The sandbox profile in plain words. */
function useProfileText(call: CallDetail, limits: CallContext['limits']): string | undefined {
  const { t } = useTranslation();
  const { profile } = call.view;
  const project = limits?.project ?? call.view.project ?? '';
  const hosts = limits?.hosts ?? call.view.hosts ?? [];
  if (profile === 'none') return t('review.profile.none');
  if (FILE_TOOLS.includes(call.tool)) return t('review.fileTool');
  if (call.view.backend === APP_GUARD) return t('review.profile.appGuard');
  switch (profile) {
    case undefined:
      return undefined;
    case 'read-only':
      return t('review.profile.read-only');
    case 'workspace-write':
      return t('review.profile.workspace-write', { project });
    case 'networked':
      return hosts.length === 0
        ? t('review.profile.networkedNone', { project })
        : t('review.profile.networked', { project, hosts: hosts.join(', ') });
    case 'full-access':
      return t('review.profile.full-access');
    default:
      return t('review.profile.other', { profile });
  }
}

function Patterns({ title, patterns }: { title: string; patterns: readonly string[] }) {
  if (patterns.length === 0) return null;
  return (
    <details>
      <summary>{title}</summary>
      <ul className="plain mono">
        {patterns.map((pattern) => (
          <li key={pattern} className="wrap">
            <bdi>{plainVisible(pattern)}</bdi>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Limits({ limits, isCommand }: { limits: NonNullable<CallContext['limits']>; isCommand: boolean }) {
  const { t } = useTranslation();
  return (
    <>
      {isCommand && (
        <>
          <dt>{t('review.folder')}</dt>
          <dd className="mono">
            <bdi>{plainVisible(limits.folder)}</bdi>
          </dd>
        </>
      )}
      {limits.preconditions.length > 0 && (
        <>
          <dt>{t('review.preconditions')}</dt>
          <dd>
            {limits.preconditions.map(({ path, realPath }) => (
              <div key={path} className="mono">
                <bdi>{plainVisible(path)}</bdi>{' '}
                <span className="tag">{t(realPath === '' ? 'review.absent' : 'review.unchanged')}</span>
                {realPath !== '' && realPath !== path && (
                  <div className="leads">
                    {t('review.link')} <bdi>{plainVisible(realPath)}</bdi>
                  </div>
                )}
              </div>
            ))}
          </dd>
        </>
      )}
    </>
  );
}

const isBounded = ({ view }: CallDetail): boolean =>
  view.backend !== APP_GUARD && !['full-access', 'none'].includes(view.profile ?? '');

/** Host, folder, paths and what the sandbox lets the call touch. */
export function TouchFacts({ call, limits }: { call: CallDetail; limits: CallContext['limits'] }) {
  const { t } = useTranslation();
  const profile = useProfileText(call, limits);
  const isCommand = !FILE_TOOLS.includes(call.tool);
  return (
    <section className="card">
      <h2>{t('review.where')}</h2>
      <dl className="facts">
        <dt>{t('call.host')}</dt>
        <dd>
          <bdi>{plainVisible(call.host)}</bdi>
        </dd>
        {call.view.realPath !== undefined && (
          <>
            <dt>{t('review.realPath')}</dt>
            <dd className="mono">
              <bdi>{plainVisible(call.view.realPath)}</bdi>
            </dd>
          </>
        )}
        {limits && <Limits limits={limits} isCommand={isCommand} />}
        {profile !== undefined && (
          <>
            <dt>{t('review.profile')}</dt>
            <dd>
              {isCommand && (
                <span className={isBounded(call) ? 'tag' : 'tag bad'}>
                  {plainVisible(call.view.backend === APP_GUARD ? APP_GUARD : (call.view.profile ?? ''))}
                </span>
              )}{' '}
              {plainVisible(profile)}
            </dd>
          </>
        )}
      </dl>
      {limits && (
        <div className="small limits">
          {isCommand && <span>{t('review.timeout', { time: duration(t, limits.timeoutMs) })}</span>}
          <Patterns title={t('review.denyRead', { count: limits.denyRead.length })} patterns={limits.denyRead} />
          <Patterns title={t('review.denyWrite', { count: limits.denyWrite.length })} patterns={limits.denyWrite} />
          {isCommand && (
            <Patterns
              title={t('review.environment', { count: limits.environment.length })}
              patterns={limits.environment}
            />
          )}
        </div>
      )}
    </section>
  );
}
