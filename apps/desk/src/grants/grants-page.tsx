import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchGrants, type Grant, revokeGrant } from '../api/fleet.ts';
import { mayDecide, seesRecord } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Page } from '../app/page-state.tsx';
import { Sheet } from '../app/sheet.tsx';
import { duration, useNow } from '../inbox/clock.ts';
import { plainVisible } from '../text/visible-text.ts';
import { ActButton } from './act-button.tsx';
import { SavedRules } from './saved-rules.tsx';
import { Trusts } from './trusts.tsx';

const EVERY_MS = 5_000;

function GrantRow({ grant }: { grant: Grant }) {
  const { t } = useTranslation();
  const me = useMe();
  const now = useNow();
  return (
    <tr>
      <td>
        {grant.reach.map((reach) => (
          <div key={reach} className="wrap">
            <bdi>{plainVisible(reach)}</bdi>
          </div>
        ))}
      </td>
      <td>
        <bdi>{t('call.on', { agent: plainVisible(grant.agent), host: plainVisible(grant.host) })}</bdi>
        <div className="dim small mono">{plainVisible(grant.session)}</div>
      </td>
      <td>{plainVisible(grant.givenBy)}</td>
      <td>{grant.uses}</td>
      <td>{duration(t, grant.expiresMs - now)}</td>
      <td>
        {mayDecide(me) && (
          <ActButton label={t('grants.revoke')} act={() => revokeGrant(grant.id, me.csrf)} reads="grants" isTaking />
        )}
      </td>
    </tr>
  );
}

/** The ledger of live grants: what each reaches, who gave it, how often it decided. */
export function GrantsPage() {
  const { t } = useTranslation();
  const grants = useQuery({ queryKey: ['grants'], queryFn: fetchGrants, refetchInterval: EVERY_MS });
  return (
    <Page title={t('nav.grants')}>
      <Sheet
        query={grants}
        none={<p className="empty">{t('grants.none')}</p>}
        heads={[t('grants.reach'), t('call.session'), t('grants.by'), t('grants.uses'), t('grants.left')]}
        acts={t('grants.revoke')}
        row={(grant) => <GrantRow key={grant.id} grant={grant} />}
      />
      {seesRecord(useMe()) && (
        <>
          <SavedRules />
          <Trusts />
        </>
      )}
    </Page>
  );
}
