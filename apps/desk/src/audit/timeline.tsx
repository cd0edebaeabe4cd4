import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { type Entry, fetchTimeline } from '../api/audit.ts';
import { Loaded } from '../app/page-state.tsx';
import { ExactText } from '../text/exact-text.tsx';
import { plainVisible } from '../text/visible-text.ts';

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function Step({ entry: { index, body } }: { entry: Entry }) {
  const { t, i18n } = useTranslation();
  const time = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'short', timeStyle: 'medium' });
  return (
    <li>
      <details>
        <summary>
          <span className="tag accent">{plainVisible(textOf(body.type))}</span>{' '}
          <span className="dim small">
            {t('audit.step', { index })}
            {typeof body.recorded_ms === 'number' && ` · ${time.format(body.recorded_ms)}`}
          </span>
        </summary>
        <ExactText text={JSON.stringify(body, undefined, 2)} label={t('audit.step', { index })} />
      </details>
    </li>
  );
}

/** Every entry of one call, in order, each whole when it is opened. */
export function Timeline({ call, onClose }: { call: string; onClose: () => void }) {
  const { t } = useTranslation();
  const entries = useQuery({ queryKey: ['timeline', call], queryFn: () => fetchTimeline(call) });
  return (
    <section className="timeline stack" aria-label={t('audit.timeline', { call })}>
      <div className="row spread">
        <h3 className="wrap">{t('audit.timeline', { call })}</h3>
        <Button size="compact-sm" variant="subtle" onClick={onClose}>
          {t('audit.close')}
        </Button>
      </div>
      <Loaded query={entries}>
        {(found) => (
          <ol className="plain stack">
            {found.map((entry) => (
              <Step key={entry.index} entry={entry} />
            ))}
          </ol>
        )}
      </Loaded>
    </section>
  );
}
