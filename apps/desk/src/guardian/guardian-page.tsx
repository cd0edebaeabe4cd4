import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useTranslation } from 'react-i18next';
import {
  type Disagreement,
  fetchAgreement,
  fetchDisagreements,
  fetchPaused,
  type PausedTurn,
  resumeTurn,
} from '../api/guardian.ts';
import { type Me, mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded, Page } from '../app/page-state.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { ModelTable } from './model-figures.tsx';
import { ReasonedAct } from './reasoned-act.tsx';

const EVERY_MS = 5_000;

/** Sessions are shown to people who see all queues. */
const seesSessions = (me: Me): boolean => mayOperate(me) || me.roles.includes('auditor');

function useTime(): (ms: number) => string {
  const { i18n } = useTranslation();
  const time = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'medium' });
  return (ms) => time.format(ms);
}

function CallLink({ id }: { id: string }) {
  return (
    <Link to="/calls/$callId" params={{ callId: id }} className="mono small">
      {id}
    </Link>
  );
}

function Paused({ turns }: { turns: readonly PausedTurn[] }) {
  const { t } = useTranslation();
  const me = useMe();
  const time = useTime();
  if (turns.length === 0) return <p className="dim">{t('guardian.noPaused')}</p>;
  return (
    <ul className="plain stack">
      {turns.map((turn) => (
        <li key={turn.id} className="card stack" data-paused={turn.id}>
          <span className="wrap">
            <span className="tag bad">{t('guardian.pausedTag')}</span> <bdi>{plainVisible(turn.agent)}</bdi>{' '}
            <span className="dim small">
              <span className="mono">{turn.id}</span> · {time(turn.pausedMs)} · <CallLink id={turn.call} />
            </span>
          </span>
          {mayOperate(me) && (
            <ReasonedAct label={t('guardian.resume')} act={(reason) => resumeTurn(turn.id, reason, me.csrf)} />
          )}
        </li>
      ))}
    </ul>
  );
}

function PausedTurns() {
  const { t } = useTranslation();
  const paused = useQuery({ queryKey: ['guardian', 'paused'], queryFn: fetchPaused, refetchInterval: EVERY_MS });
  return (
    <section className="stack">
      <h2>{t('guardian.paused')}</h2>
      <Loaded query={paused}>{(turns) => <Paused turns={turns} />}</Loaded>
    </section>
  );
}

function Differences({ list }: { list: readonly Disagreement[] }) {
  const { t } = useTranslation();
  const time = useTime();
  if (list.length === 0) return <p className="empty">{t('guardian.noDifference')}</p>;
  return (
    <SheetBox>
      <table className="sheet">
        <thead>
          <tr>
            <th>{t('guardian.call')}</th>
            <th>{t('guardian.opinion')}</th>
            <th>{t('guardian.person')}</th>
            <th>{t('decide.reason')}</th>
            <th>{t('guardian.when')}</th>
          </tr>
        </thead>
        <tbody>
          {list.map((one) => (
            <tr key={`${one.call} ${one.version}`} data-difference={one.call}>
              <td className="wrap">
                <bdi>{plainVisible(one.summary)}</bdi>
                <div>
                  <CallLink id={one.call} />
                </div>
              </td>
              <td>
                <span className={one.opinion === 'approve' ? 'tag bad' : 'tag warn'}>
                  {t(`guardian.would.${one.opinion}`)}
                </span>
                <div className="dim small mono wrap">{plainVisible(one.version)}</div>
              </td>
              <td>
                {t(`guardian.did.${one.human}`)}
                <div className="dim small">{plainVisible(one.by)}</div>
              </td>
              <td className="wrap">
                <bdi>{plainVisible(one.reason)}</bdi>
              </td>
              <td>{time(one.atMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}

/** Agreement of the reviewing models with people: figures, demotions, differences, and turns that repeated denials paused. */
export function GuardianPage() {
  const { t } = useTranslation();
  const me = useMe();
  const every = { refetchInterval: EVERY_MS };
  const agreement = useQuery({ queryKey: ['guardian', 'agreement'], queryFn: fetchAgreement, ...every });
  const differences = useQuery({ queryKey: ['guardian', 'differences'], queryFn: fetchDisagreements, ...every });
  return (
    <Page title={t('nav.guardian')}>
      {seesSessions(me) && <PausedTurns />}
      <Loaded query={agreement}>{(found) => <ModelTable agreement={found} />}</Loaded>
      <section className="stack">
        <h2>{t('guardian.differences')}</h2>
        <Loaded query={differences}>{(found) => <Differences list={found} />}</Loaded>
      </section>
    </Page>
  );
}
