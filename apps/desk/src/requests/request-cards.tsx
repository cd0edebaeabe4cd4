import { Alert, Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { mayDecide, mayOperate } from '../api/me.ts';
import { approveRequest, denyRequest, fetchRequest, fetchRequests, type PermissionRequest } from '../api/requests.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded } from '../app/page-state.tsx';
import { duration, useNow } from '../inbox/clock.ts';
import { useGuardTime } from '../review/use-guard-time.ts';
import { plainVisible } from '../text/visible-text.ts';
import './requests.css';

const EVERY_MS = 5_000;
type Act = { readonly approve: boolean; readonly digest: string };

/** What an approval would change, line by line, and the answers. A failed answer stays with its error. */
function Answers({ id }: { id: string }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const [reason, setReason] = useState('');
  const query = useQuery({ queryKey: ['requests', id], queryFn: () => fetchRequest(id) });
  const digest = query.data?.digest ?? '';
  const settled = useGuardTime(digest);
  const answer = useMutation({
    mutationFn: ({ approve, digest: seen }: Act) =>
      approve ? approveRequest(id, { digest: seen, reason }, me.csrf) : denyRequest(id, reason, me.csrf),
    onSettled: () => client.invalidateQueries({ queryKey: ['requests'] }),
  });
  const held = answer.isPending || answer.isSuccess;
  return (
    <Loaded query={query}>
      {({ says = [], problem }) => (
        <div className="stack">
          <ul className="request-says">
            {says.map((line) => (
              <li key={line} className="wrap">
                <bdi>{plainVisible(line)}</bdi>
              </li>
            ))}
          </ul>
          {problem !== undefined && <p className="small warn-text">{t('requests.cannot', { why: problem })}</p>}
          <TextInput
            size="xs"
            label={t('decide.reason')}
            value={reason}
            maxLength={2_000}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          {answer.isError && (
            <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
              {answer.error.message}
            </Alert>
          )}
          <div className="row">
            {mayOperate(me) && (
              <Button
                size="compact-sm"
                disabled={held || !settled || digest === ''}
                onClick={() => answer.mutate({ approve: true, digest })}
              >
                {t('requests.approve')}
              </Button>
            )}
            {mayDecide(me) && (
              <Button
                size="compact-sm"
                variant="outline"
                color="red"
                disabled={held}
                onClick={() => answer.mutate({ approve: false, digest })}
              >
                {t('requests.deny')}
              </Button>
            )}
          </div>
        </div>
      )}
    </Loaded>
  );
}

function RequestCard({ request }: { request: PermissionRequest }) {
  const { t } = useTranslation();
  const now = useNow();
  const [open, setOpen] = useState(false);
  const { id, kind, agent, host, session = '', path = '', reason, untilMs } = request;
  return (
    <li className="request-card" data-request={id}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="request-head">
        <strong>{t(kind === 'folder' ? 'requests.folder' : 'requests.update')}</strong>
        <span className="wrap">
          <bdi>{t('call.on', { agent: plainVisible(agent), host: plainVisible(host) })}</bdi>
        </span>
        <span className="dim small mono wrap">{plainVisible(kind === 'folder' ? path : session)}</span>
        {reason !== '' && <span className="small wrap">{t('requests.because', { reason: plainVisible(reason) })}</span>}
        <span className="dim small">{t('requests.left', { time: duration(t, untilMs - now) })}</span>
      </button>
      {open && <Answers id={id} />}
    </li>
  );
}

/** Permission updates and folders that agents ask for; nothing where none waits. */
export function RequestCards() {
  const { t } = useTranslation();
  const requests = useQuery({ queryKey: ['requests'], queryFn: fetchRequests, refetchInterval: EVERY_MS });
  if (requests.data?.length === 0 && !requests.isError) return null;
  return (
    <section className="requests" aria-label={t('requests.title')}>
      <Loaded query={requests}>
        {(found) => (
          <ul>
            {found.map((request) => (
              <RequestCard key={request.id} request={request} />
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  );
}
