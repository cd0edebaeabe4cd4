import { Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchChannels, fetchDead, fetchGovernance, replayNotice, testChannel } from '../api/admin.ts';
import { mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded, Page } from '../app/page-state.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { People } from './people.tsx';
import { Tokens } from './tokens.tsx';

type Governance = Awaited<ReturnType<typeof fetchGovernance>>;

function Queues({ queues }: { queues: Governance['queues'] }) {
  const { t } = useTranslation();
  const names = Object.entries(queues);
  const listed = (groups: readonly string[] = []) => groups.map(plainVisible).join(', ') || '—';
  if (names.length === 0) return <p className="dim">{t('admin.noQueues')}</p>;
  return (
    <SheetBox>
      <table className="sheet">
        <thead>
          <tr>
            <th>{t('call.queue')}</th>
            <th>{t('admin.approvers')}</th>
            <th>{t('admin.quorum')}</th>
            <th>{t('admin.readers')}</th>
            <th>{t('admin.hours')}</th>
          </tr>
        </thead>
        <tbody>
          {names.map(([name, { approvers, quorum, readers, ...rest }]) => (
            <tr key={name}>
              <td>
                <bdi>{plainVisible(name)}</bdi>
              </td>
              <td>{listed(approvers)}</td>
              <td>{listed(quorum?.map(({ group, count }) => `${count} × ${group}`))}</td>
              <td>{listed(readers)}</td>
              <td className="mono small wrap">{plainVisible(JSON.stringify(rest))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}

function Hardened({ hardened }: { hardened: boolean }) {
  const { t } = useTranslation();
  return (
    <section className="card stack" aria-label={t('admin.hardened')}>
      <h2>{t('admin.hardened')}</h2>
      {hardened ? (
        <p>
          <span className="tag good" aria-hidden="true">
            🔒
          </span>{' '}
          {t('admin.hardenedOn')}
        </p>
      ) : (
        <p>
          <span className="tag">{t('admin.hardenedOff')}</span> {t('admin.hardenedOffHint')}
        </p>
      )}
    </section>
  );
}

function Channel({ channel: { id, kind } }: { channel: { id: string; kind: string } }) {
  const { t } = useTranslation();
  const me = useMe();
  const test = useMutation({ mutationFn: () => testChannel(id, me.csrf) });
  return (
    <li className="row spread">
      <span>
        <bdi>{plainVisible(id)}</bdi> <span className="tag">{kind}</span>
      </span>
      <span className="row">
        {test.isSuccess && <span role="status">{t('admin.tested')}</span>}
        {test.isError && <span role="alert">{test.error.message}</span>}
        <Button size="compact-sm" variant="default" loading={test.isPending} onClick={() => test.mutate()}>
          {t('admin.test')}
        </Button>
      </span>
    </li>
  );
}

function DeadNotices() {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const dead = useQuery({ queryKey: ['dead'], queryFn: fetchDead });
  const replay = useMutation({
    mutationFn: (seq: number) => replayNotice(seq, me.csrf),
    onSuccess: () => client.invalidateQueries({ queryKey: ['dead'] }),
  });
  return (
    <Loaded query={dead}>
      {(found) =>
        found.length === 0 ? null : (
          <details>
            <summary>{t('admin.dead', { count: found.length })}</summary>
            {replay.isError && <p role="alert">{replay.error.message}</p>}
            <ul className="plain">
              {found.map(({ seq, channel, why }) => (
                <li key={seq} className="row spread">
                  <span className="wrap">
                    {plainVisible(channel)}: {plainVisible(why)}
                  </span>
                  <Button size="compact-xs" variant="default" onClick={() => replay.mutate(seq)}>
                    {t('admin.replay')}
                  </Button>
                </li>
              ))}
            </ul>
          </details>
        )
      }
    </Loaded>
  );
}

function Channels() {
  const { t } = useTranslation();
  const channels = useQuery({ queryKey: ['channels'], queryFn: fetchChannels });
  return (
    <section className="card stack" aria-label={t('admin.channels')}>
      <h2>{t('admin.channels')}</h2>
      <Loaded query={channels}>
        {(found) =>
          found.length === 0 ? (
            <p className="dim">{t('admin.noChannels')}</p>
          ) : (
            <ul className="plain stack">
              {found.map((channel) => (
                <Channel key={channel.id} channel={channel} />
              ))}
            </ul>
          )
        }
      </Loaded>
      <DeadNotices />
    </section>
  );
}

/** People, queues, tokens, channels, and whether hardened mode is locked on. */
export function AdminPage() {
  const { t } = useTranslation();
  const me = useMe();
  const governance = useQuery({ queryKey: ['governance'], queryFn: fetchGovernance });
  const operates = mayOperate(me);
  return (
    <Page title={t('nav.admin')}>
      {(operates || me.roles.includes('auditor')) && <People />}
      <Tokens />
      <Loaded query={governance}>
        {({ queues, hardened }) => (
          <>
            <section className="card stack" aria-label={t('admin.queues')}>
              <h2>{t('admin.queues')}</h2>
              <Queues queues={queues} />
            </section>
            <Hardened hardened={hardened} />
          </>
        )}
      </Loaded>
      {operates ? <Channels /> : <p className="dim small">{t('admin.onlyOperators')}</p>}
    </Page>
  );
}
