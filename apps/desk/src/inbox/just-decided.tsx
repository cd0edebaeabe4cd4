import { Button, CloseButton } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Call } from '../api/calls.ts';
import { useWaiting } from '../live/live-context.tsx';
import { StateName } from '../review/state-name.tsx';
import { plainVisible } from '../text/visible-text.ts';

const OutputView = lazy(() =>
  import('../sessions/output-view.tsx').then(({ OutputView: component }) => ({ default: component })),
);

/** Calls that are still told of after they were answered. */
export const MAX_TOLD = 3;
const RUNS = ['approved', 'dispatched', 'running', 'backgrounded'];
const BAD = ['denied', 'failed', 'refused', 'interrupted', 'timed_out', 'stopped', 'cancelled', 'withdrawn', 'expired'];

const toneOf = (state: string): string => (BAD.includes(state) ? 'bad' : state === 'done' ? 'good' : 'accent');

function Told({ call, onClose }: { call: Call; onClose: () => void }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  const state = useWaiting().ended.get(call.callId)?.state || 'approved';
  return (
    <li data-told={call.callId}>
      <div className="row tight">
        <span className={`tag ${toneOf(state)}`}>
          <StateName state={state} />
        </span>
        <Link
          to="/calls/$callId"
          params={{ callId: call.callId }}
          search={true}
          className="mono cut grow"
          preload={false}
        >
          <bdi>{plainVisible(call.summary.slice(0, 400))}</bdi>
        </Link>
        {(open || RUNS.includes(state)) && (
          <Button size="compact-xs" variant="subtle" aria-expanded={open} onClick={() => setOpen(!open)}>
            {t('sessions.output')}
          </Button>
        )}
        <CloseButton size="xs" aria-label={t('told.close')} onClick={onClose} />
      </div>
      {open && (
        <Suspense fallback={null}>
          <OutputView callId={call.callId} />
        </Suspense>
      )}
    </li>
  );
}

/** What becomes of the calls that were answered here last: sent, running with its output, how it ended. */
export function JustDecided({ calls, onClose }: { calls: readonly Call[]; onClose: (callId: string) => void }) {
  const { t } = useTranslation();
  if (calls.length === 0) return null;
  return (
    <section className="told" aria-label={t('told.title')}>
      <ul className="plain" aria-live="polite">
        {calls.map((call) => (
          <Told key={call.callId} call={call} onClose={() => onClose(call.callId)} />
        ))}
      </ul>
    </section>
  );
}
