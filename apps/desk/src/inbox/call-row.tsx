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
  /** Filters of the list, as the end of an address. */
  readonly query: string;
  readonly onMark: (ids: readonly string[]) => void;
};

/**
 * One waiting call in the list: what, who, where, how long it still waits. Plain elements: lists have many of these, and a
 * router's link would follow every change of the address. The list takes the clicks.
 */
export const CallRow = memo(function CallRow({ call, marked, open, query, onMark }: Props) {
  const { t } = useTranslation();
  const summary = plainVisible(call.summary.slice(0, 400));
  return (
    <div className="call-row" data-open={open || undefined}>
      <input
        type="checkbox"
        className="mark"
        checked={marked}
        tabIndex={-1}
        onChange={() => onMark([call.callId])}
        aria-label={t('inbox.select', { summary: summary.slice(0, 120) })}
      />
      <a
        href={`/calls/${encodeURIComponent(call.callId)}${query}`}
        data-call={call.callId}
        aria-current={open ? 'true' : undefined}
      >
        <bdi className="summary mono cut">{summary}</bdi>
        <span className="meta">
          <bdi className="cut">{t('call.on', { agent: plainVisible(call.agent), host: plainVisible(call.host) })}</bdi>
          <SlaClock deadlineMs={call.deadlineMs} />
        </span>
      </a>
    </div>
  );
});
