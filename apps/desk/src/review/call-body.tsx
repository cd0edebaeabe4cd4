import { SegmentedControl } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { CallDetail } from '../api/calls.ts';
import { Loading } from '../app/loading.tsx';
import { ExactText } from '../text/exact-text.tsx';
import { type ReadableArguments, readableArguments } from './readable-arguments.ts';
import { Scripts } from './scripts.tsx';
import { useCallContext } from './use-call-context.ts';

const DiffView = lazy(() => import('./diff-view.tsx').then(({ DiffView: component }) => ({ default: component })));

function FileChange({ diff, rest }: { diff: string; rest: ReadableArguments['rest'] }) {
  const { t } = useTranslation();
  const [shown, setShown] = useState('diff');
  const content = rest.find(([name]) => name === 'content')?.[1];
  return (
    <section className="stack" aria-label={t('review.change')}>
      <div className="row spread">
        <h2>{t('review.change')}</h2>
        {content !== undefined && (
          <SegmentedControl
            size="xs"
            value={shown}
            onChange={setShown}
            data={[
              { value: 'diff', label: t('review.diff') },
              { value: 'exact', label: t('review.exact') },
            ]}
          />
        )}
      </div>
      {shown === 'exact' && content !== undefined ? (
        <ExactText text={content} label={t('review.exact')} />
      ) : (
        <Suspense fallback={<Loading />}>
          <DiffView diff={diff} />
          {diff.includes('‹masked›') && <p className="small dim">{t('review.maskedDiff')}</p>}
        </Suspense>
      )}
    </section>
  );
}

/** What would be done: the exact command, path or arguments, and the change to a file. */
export function CallBody({ call }: { call: CallDetail }) {
  const { t } = useTranslation();
  const command = useCallContext(call).data?.command;
  const shown = readableArguments(call.tool, call.arguments);
  const { diff } = call.view;
  const rest = diff === undefined ? shown.rest : shown.rest.filter(([name]) => name !== 'content');
  return (
    <div className="stack">
      <ExactText
        text={shown.main}
        label={t(shown.label)}
        tokens={command?.tokens}
        stretches={command?.decisive.map(({ start, end, effect }, index) => ({
          start,
          end,
          effect,
          number: index + 1,
        }))}
      />
      <Scripts call={call} />
      {diff !== undefined && <FileChange diff={diff} rest={shown.rest} />}
      {rest.map(([name, value]) => (
        <ExactText key={name} text={value} label={name} />
      ))}
    </div>
  );
}
