import { Checkbox } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import { useTranslation } from 'react-i18next';
import type { Call } from '../api/calls.ts';
import { plainVisible } from '../text/visible-text.ts';
import { DUE_MS } from './arrange.ts';
import { duration, useNow } from './clock.ts';

/** Time left until a call expires unanswered. */
export function SlaClock({ deadlineMs }: { deadlineMs: number }) {
  const { t } = useTranslation();
  const left = deadlineMs - useNow();
  const tone = left < 60_000 ? 'bad' : left < DUE_MS ? 'warn' : '';
  return (
    <span className={`tag ${tone}`}>{left <= 0 ? t('call.overdue') : t('call.due', { time: duration(t, left) })}</span>
  );
}

type Props = {
  readonly call: Call;
  readonly marked: boolean;
  readonly open: boolean;
  readonly onMark: (callId: string) => void;
};

/** One waiting call in the list: what, who, where, how long it still waits. */
export const CallRow = memo(function CallRow({ call, marked, open, onMark }: Props) {
  const { t } = useTranslation();
  const summary = plainVisible(call.summary.slice(0, 400));
  return (
    <div className="call-row" data-open={open || undefined}>
      <Checkbox
        size="xs"
        checked={marked}
        tabIndex={-1}
        onChange={() => onMark(call.callId)}
        aria-label={t('inbox.select', { summary: summary.slice(0, 120) })}
      />
      <Link
        to="/calls/$callId"
        params={{ callId: call.callId }}
        search={(search) => search}
        data-call={call.callId}
        aria-current={open ? 'true' : undefined}
        preload={false}
      >
        <bdi className="summary mono cut">{summary}</bdi>
        <span className="meta">
          <bdi className="cut">{t('call.on', { agent: call.agent, host: call.host })}</bdi>
          <SlaClock deadlineMs={call.deadlineMs} />
        </span>
      </Link>
    </div>
  );
});
