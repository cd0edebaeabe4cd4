import type { ReactElement, ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { ResponsiveContainer } from 'recharts';
import type { Insight } from '../api/insights.ts';
import { SheetBox } from '../app/sheet-box.tsx';

export const CHART_PX = 240;

/** Names in a legend in the colour of text; the colour of their mark may be too faint to read. */
export const legendName = (name: unknown) => <span className="legend">{String(name)}</span>;

/** A chart, which only repeats what the table beside it says. */
export function Chart({
  label,
  children,
  height = CHART_PX,
}: {
  label: string;
  children: ReactElement;
  height?: number;
}) {
  return (
    <div className="chart" role="img" aria-label={label}>
      <ResponsiveContainer width="100%" height={height}>
        {children}
      </ResponsiveContainer>
    </div>
  );
}

/** One row of figures; `key` is its own among the rows. */
export type FigureRow = { readonly key: string; readonly cells: readonly ReactNode[] };

/** Heads and rows of figures; the first column names the row. */
export function FigureTable({ heads, rows }: { heads: readonly string[]; rows: readonly FigureRow[] }) {
  return (
    <SheetBox>
      <table className="sheet small figures">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells }) => (
            <tr key={key}>
              {heads.map((head, at) => (
                <td key={head}>{cells[at]}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}

/** The table of a chart over time, folded because it has a row for each step. */
export function FoldedTable(table: { heads: readonly string[]; rows: readonly FigureRow[] }) {
  const { t } = useTranslation();
  return (
    <details>
      <summary>{t('insights.table')}</summary>
      <FigureTable {...table} />
    </details>
  );
}

type Props = { readonly title: string; readonly about: string; readonly found: Insight; readonly children: ReactNode };

/** One question with its chart and table, or that there is nothing to show. */
export function Figure({ title, about, found, children }: Props) {
  const { t } = useTranslation();
  return (
    <section className="card stack" aria-label={title}>
      <h2>{title}</h2>
      <p className="dim small">{about}</p>
      {found.cut && <p className="warn-text">{t('insights.cut', { count: found.seen })}</p>}
      {found.rows.length === 0 ? <p className="empty">{t('insights.nothing')}</p> : children}
    </section>
  );
}
