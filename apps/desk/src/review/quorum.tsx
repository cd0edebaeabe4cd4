import { useTranslation } from 'react-i18next';
import type { CallDetail } from '../api/calls.ts';
import { duration, useNow } from '../inbox/clock.ts';
import { plainVisible } from '../text/visible-text.ts';

function Due({ dueMs }: { dueMs: number }) {
  const { t } = useTranslation();
  const left = dueMs - useNow();
  return (
    <span className={left < 0 ? 'tag bad' : 'tag warn'}>
      {left < 0 ? t('quorum.late') : t('quorum.due', { time: duration(t, left) })}
    </span>
  );
}

/** Who has answered a call that more than one person has to approve, and who is missing. */
export function Quorum({ approval }: { approval: NonNullable<CallDetail['approval']> }) {
  const { t } = useTranslation();
  const { answered, missing, escalated, dueMs } = approval;
  const needed = missing.reduce((sum, { count }) => sum + count, 0);
  if (answered.length === 0 && needed <= 1 && !escalated && dueMs === undefined && missing[0]?.group === '')
    return null;
  return (
    <section className="card" aria-label={t('quorum.title')}>
      <h2>{t('quorum.title')}</h2>
      <p className="row">
        {escalated && <span className="tag bad">{t('quorum.escalated')}</span>}
        {dueMs !== undefined && <Due dueMs={dueMs} />}
      </p>
      <dl className="facts">
        <dt>{t('quorum.answered')}</dt>
        <dd>{answered.length === 0 ? t('quorum.nobody') : answered.map(plainVisible).join(', ')}</dd>
        <dt>{t('quorum.missing')}</dt>
        <dd>
          {missing.length === 0
            ? t('quorum.nobody')
            : missing
                .map(({ group, count }) =>
                  group === ''
                    ? t('quorum.anybody', { count })
                    : t('quorum.ofGroup', { count, group: plainVisible(group) }),
                )
                .join(', ')}
        </dd>
      </dl>
    </section>
  );
}
