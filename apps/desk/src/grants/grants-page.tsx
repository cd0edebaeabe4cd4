import { Alert, Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchGrants, type Grant, revokeGrant } from '../api/fleet.ts';
import { mayDecide, seesRecord } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded, Page } from '../app/page-state.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { duration, useNow } from '../inbox/clock.ts';
import { plainVisible } from '../text/visible-text.ts';
import { SavedRules } from './saved-rules.tsx';
import { Trusts } from './trusts.tsx';

const EVERY_MS = 5_000;

function GrantRow({ grant }: { grant: Grant }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const now = useNow();
  const revoke = useMutation({
    mutationFn: () => revokeGrant(grant.id, me.csrf),
    onSuccess: () => client.invalidateQueries({ queryKey: ['grants'] }),
  });
  return (
    <tr>
      <td>
        {grant.reach.map((reach) => (
          <div key={reach} className="wrap">
            <bdi>{plainVisible(reach)}</bdi>
          </div>
        ))}
        {revoke.isError && (
          <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
            {revoke.error.message}
          </Alert>
        )}
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
          <Button
            size="compact-sm"
            variant="outline"
            color="red"
            loading={revoke.isPending}
            onClick={() => revoke.mutate()}
          >
            {t('grants.revoke')}
          </Button>
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
      <Loaded query={grants}>
        {(found) =>
          found.length === 0 ? (
            <p className="empty">{t('grants.none')}</p>
          ) : (
            <SheetBox>
              <table className="sheet">
                <thead>
                  <tr>
                    <th>{t('grants.reach')}</th>
                    <th>{t('call.session')}</th>
                    <th>{t('grants.by')}</th>
                    <th>{t('grants.uses')}</th>
                    <th>{t('grants.left')}</th>
                    <th>
                      <span className="only-heard">{t('grants.revoke')}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((grant) => (
                    <GrantRow key={grant.id} grant={grant} />
                  ))}
                </tbody>
              </table>
            </SheetBox>
          )
        }
      </Loaded>
      {seesRecord(useMe()) && (
        <>
          <SavedRules />
          <Trusts />
        </>
      )}
    </Page>
  );
}
