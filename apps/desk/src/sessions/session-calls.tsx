import { Alert, Button } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type Call, cancelCall } from '../api/calls.ts';
import { mayDecide } from '../api/me.ts';
import { fetchCallsOf, sendToBackground } from '../api/sessions.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded } from '../app/page-state.tsx';
import { StateName } from '../review/state-name.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { OutputView } from './output-view.tsx';

const EVERY_MS = 3_000;
const RUNS = ['dispatched', 'running', 'backgrounded'];
const TONE: Readonly<Record<string, string>> = {
  pending: 'warn',
  running: 'accent',
  backgrounded: 'accent',
  done: 'good',
  denied: 'bad',
  failed: 'bad',
  interrupted: 'bad',
};

function RunningActs({ call }: { call: Call }) {
  const { t } = useTranslation();
  const me = useMe();
  const stop = useMutation({ mutationFn: () => cancelCall(call.callId, 'stopped at the desk', me.csrf) });
  const background = useMutation({ mutationFn: () => sendToBackground(call.callId, me.csrf) });
  const failed = stop.error ?? background.error;
  if (!mayDecide(me)) return null;
  return (
    <span className="row tight">
      {call.tool === 'bash' && call.state !== 'backgrounded' && (
        <Button
          size="compact-xs"
          variant="default"
          loading={background.isPending}
          disabled={background.isSuccess}
          onClick={() => background.mutate()}
        >
          {t(background.isSuccess ? 'sessions.requested' : 'sessions.background')}
        </Button>
      )}
      <Button
        size="compact-xs"
        variant="outline"
        color="red"
        loading={stop.isPending}
        disabled={stop.isSuccess}
        onClick={() => stop.mutate()}
      >
        {t(stop.isSuccess ? 'sessions.requested' : 'sessions.stop')}
      </Button>
      {failed && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {failed.message}
        </Alert>
      )}
    </span>
  );
}

function CallLine({ call, open, onOpen }: { call: Call; open: boolean; onOpen: () => void }) {
  const { t, i18n } = useTranslation();
  const runs = RUNS.includes(call.state);
  const time = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'medium' });
  return (
    <li className="session-call" data-call={call.callId}>
      <div className="row spread">
        <span className="row tight grow">
          <span className={`tag ${TONE[call.state] ?? ''}`}>
            <StateName state={call.state} />
          </span>
          <Link to="/calls/$callId" params={{ callId: call.callId }} className="mono cut grow">
            <bdi>{plainVisible(call.summary.slice(0, 400))}</bdi>
          </Link>
        </span>
        <span className="row tight">
          {runs && (
            <Button size="compact-xs" variant="subtle" aria-expanded={open} onClick={onOpen}>
              {t('sessions.output')}
            </Button>
          )}
          {runs && <RunningActs call={call} />}
          <span className="dim small">{time.format(call.receivedMs)}</span>
        </span>
      </div>
      {open && <OutputView callId={call.callId} />}
    </li>
  );
}

/** The newest calls of a session; those that run with their output, which one of them shows at a time. */
export function SessionCalls({ session }: { session: string }) {
  const { t } = useTranslation();
  const [shown, setShown] = useState<string>();
  const calls = useQuery({
    queryKey: ['session', session, 'calls'],
    queryFn: () => fetchCallsOf(session),
    refetchInterval: EVERY_MS,
  });
  return (
    <section className="card stack">
      <h2>{t('sessions.calls')}</h2>
      <Loaded query={calls}>
        {(found) =>
          found.length === 0 ? (
            <p className="dim">{t('sessions.noCalls')}</p>
          ) : (
            <ul className="plain">
              {found.map((call) => (
                <CallLine
                  key={call.callId}
                  call={call}
                  open={shown === call.callId}
                  onOpen={() => setShown(shown === call.callId ? undefined : call.callId)}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}
