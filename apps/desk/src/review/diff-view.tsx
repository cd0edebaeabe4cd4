import { useMemo } from 'react';
import { useTranslation } from 'react-i18next';
import { ExactText } from '../text/exact-text.tsx';
import { visibleParts } from '../text/visible-text.ts';
import { type DiffRow, diffRows, type Side } from './diff-rows.ts';
import './diff-view.css';

/** Text with everything invisible named. */
function Visible({ text }: { text: string }) {
  return visibleParts(text).map((part) =>
    part.kind === 'plain' ? (
      part.text
    ) : (
      <mark key={part.start} className="unseen">
        {part.text}
      </mark>
    ),
  );
}

function Half({ side, kind }: { side: Side | undefined; kind: 'before' | 'after' }) {
  const changed = side?.changed ? kind : '';
  let at = 0;
  return (
    <>
      <td className={`number ${changed}`}>{side?.number}</td>
      <td className={`half ${changed}`} data-sign={side?.changed ? (kind === 'before' ? '−' : '+') : ''}>
        {side?.pieces.map(({ text, changed: differs }) => {
          at += 1;
          return differs ? (
            <b key={at}>
              <Visible text={text} />
            </b>
          ) : (
            <span key={at}>
              <Visible text={text} />
            </span>
          );
        })}
      </td>
    </>
  );
}

/** Line numbers occur once on each side; a gap or note is told by what it says. */
const keyOf = (row: DiffRow): string => {
  if (row.kind === 'lines') return `${row.before?.number}|${row.after?.number}`;
  return row.kind === 'gap' ? `gap before ${row.from}` : `note after ${row.after}`;
};

function Line({ row }: { row: DiffRow }) {
  if (row.kind === 'lines')
    return (
      <tr>
        <Half side={row.before} kind="before" />
        <Half side={row.after} kind="after" />
      </tr>
    );
  return (
    <tr className="gap">
      <td colSpan={4}>{row.kind === 'gap' ? `⋯ ${row.lines}` : row.text}</td>
    </tr>
  );
}

/** A unified diff as two files side by side. What is not a diff is shown as the text that it is. */
export function DiffView({ diff }: { diff: string }) {
  const { t } = useTranslation();
  const rows = useMemo(() => diffRows(diff), [diff]);
  if (!rows) return <ExactText text={diff} label={t('review.change')} />;
  return (
    <div className="diff-wrap">
      <table className="diff" aria-label={t('review.change')}>
        <colgroup>
          <col className="number" />
          <col />
          <col className="number" />
          <col />
        </colgroup>
        <thead>
          <tr>
            <th colSpan={2}>{t('review.before')}</th>
            <th colSpan={2}>{t('review.after')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Line key={keyOf(row)} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}
