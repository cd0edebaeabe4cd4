import { useTranslation } from 'react-i18next';
import { Bar, BarChart, XAxis, YAxis } from 'recharts';
import type { Insight, InsightRow } from '../api/insights.ts';
import { plainVisible } from '../text/visible-text.ts';
import { Chart, Figure, FigureTable } from './figure.tsx';

/** Rows that the chart and the table show. */
const SHOWN = 20;
const BAR_PX = 22;
const EDGE_PX = 30;
const TICK = { fill: 'var(--dim)', fontSize: 11 } as const;

type Props = {
  readonly title: string;
  readonly about: string;
  readonly found: Insight;
  /** Head of the text's column and of the one beside it. */
  readonly heads: readonly [string, string];
  readonly textOf: (row: InsightRow) => string;
  readonly besideOf: (row: InsightRow) => string;
};

/** Texts with their counts, most first; bars carry the number of their row, since a text may be long. */
export function Ranked({ title, about, found, heads, textOf, besideOf }: Props) {
  const { t } = useTranslation();
  const rows = found.rows.slice(0, SHOWN).map((row, at) => ({
    number: at + 1,
    calls: Number(row.calls),
    text: plainVisible(textOf(row)) || t('insights.noReason'),
    beside: plainVisible(besideOf(row)),
  }));
  return (
    <Figure title={title} about={about} found={found}>
      <div className="ranked">
        <Chart label={title} height={rows.length * BAR_PX + EDGE_PX}>
          <BarChart data={rows} layout="vertical" accessibilityLayer={false}>
            <XAxis type="number" allowDecimals={false} tick={TICK} stroke="var(--line)" />
            <YAxis type="category" dataKey="number" width={28} interval={0} tick={TICK} stroke="var(--line)" />
            <Bar dataKey="calls" fill="var(--chart-2)" isAnimationActive={false} barSize={12} />
          </BarChart>
        </Chart>
        <FigureTable
          heads={['#', ...heads, t('insights.calls')]}
          rows={rows.map(({ number, calls, text, beside }) => ({
            key: String(number),
            cells: [number, <bdi key="text">{text}</bdi>, <bdi key="beside">{beside}</bdi>, calls],
          }))}
        />
      </div>
    </Figure>
  );
}
