import { useTranslation } from 'react-i18next';
import { Bar, BarChart, CartesianGrid, Legend, Line, LineChart, XAxis, YAxis } from 'recharts';
import type { Insight } from '../api/insights.ts';
import { duration } from '../inbox/clock.ts';
import { Chart, Figure, FoldedTable, legendName } from './figure.tsx';
import { type Period, stepName } from './period.ts';
import { ENDS, type End, volumesOf } from './volumes.ts';

type Props = { readonly found: Insight; readonly period: Period; readonly steps: readonly number[] };

const COLOR: Readonly<Record<End, string>> = {
  allowedByPolicy: 'var(--chart-1)',
  allowedByPeople: 'var(--chart-2)',
  deniedByPolicy: 'var(--chart-3)',
  deniedByPeople: 'var(--chart-4)',
  expired: 'var(--chart-5)',
};
const AXIS = { stroke: 'var(--line)', tick: { fill: 'var(--dim)', fontSize: 11 }, tickLine: false } as const;
const GRID = { stroke: 'var(--line)', vertical: false } as const;
const SECOND_MS = 1_000;
/** Times below it are told with a decimal. */
const SHORT_MS = 10_000;

/** Decided and expired calls of each step, stacked by how they ended. */
export function Volumes({ found, period, steps }: Props) {
  const { t, i18n } = useTranslation();
  const data = volumesOf(found.rows, steps).map((volume) => ({
    ...volume,
    name: stepName(i18n.language, period, volume.fromMs),
  }));
  const used = ENDS.filter((end) => data.some((volume) => volume[end] > 0));
  const total = data.reduce((sum, volume) => sum + ENDS.reduce((all, end) => all + volume[end], 0), 0);
  return (
    <Figure title={t('insights.volumes')} about={t('insights.volumesText')} found={found}>
      <p data-total={total}>{t('insights.total', { count: total })}</p>
      <Chart label={t('insights.volumes')}>
        <BarChart data={data} accessibilityLayer={false}>
          <CartesianGrid {...GRID} />
          <XAxis dataKey="name" minTickGap={24} {...AXIS} />
          <YAxis allowDecimals={false} width={44} {...AXIS} />
          <Legend formatter={legendName} />
          {used.map((end) => (
            <Bar
              key={end}
              dataKey={end}
              name={t(`insights.end.${end}`)}
              stackId="all"
              fill={COLOR[end]}
              isAnimationActive={false}
            />
          ))}
        </BarChart>
      </Chart>
      <FoldedTable
        heads={[t('insights.from'), ...used.map((end) => t(`insights.end.${end}`))]}
        rows={data.map((volume) => ({
          key: String(volume.fromMs),
          cells: [volume.name, ...used.map((end) => volume[end])],
        }))}
      />
    </Figure>
  );
}

/** How long people took to answer. */
export function DecisionTimes({ found, period, steps }: Props) {
  const { t, i18n } = useTranslation();
  const known = new Map(found.rows.map((row) => [Number(row.from_ms), row]));
  const data = steps.map((fromMs) => {
    const row = known.get(fromMs);
    return {
      fromMs,
      name: stepName(i18n.language, period, fromMs),
      calls: Number(row?.calls ?? 0),
      ...(row && { median: Number(row.median_ms) / SECOND_MS, p95: Number(row.p95_ms) / SECOND_MS }),
    };
  });
  const time = (ms: unknown) =>
    Number(ms) < SHORT_MS
      ? t('insights.seconds', { seconds: (Number(ms) / SECOND_MS).toFixed(1) })
      : duration(t, Number(ms));
  const inWords = (seconds: number | undefined) => (seconds === undefined ? '—' : time(seconds * SECOND_MS));
  const { median_ms: median, p95_ms: p95 } = found.figures;
  const lines = [
    ['median', t('insights.median'), 'var(--chart-2)'],
    ['p95', t('insights.p95'), 'var(--chart-4)'],
  ] as const;
  return (
    <Figure title={t('insights.times')} about={t('insights.timesText')} found={found}>
      <p>{t('insights.timesWhole', { median: time(median), p95: time(p95), count: found.seen })}</p>
      <Chart label={t('insights.times')}>
        <LineChart data={data} accessibilityLayer={false}>
          <CartesianGrid {...GRID} />
          <XAxis dataKey="name" minTickGap={24} {...AXIS} />
          <YAxis width={64} tickFormatter={(seconds: number) => time(seconds * SECOND_MS)} {...AXIS} />
          <Legend formatter={legendName} />
          {lines.map(([key, name, stroke]) => (
            <Line key={key} dataKey={key} name={name} stroke={stroke} strokeWidth={2} isAnimationActive={false} />
          ))}
        </LineChart>
      </Chart>
      <FoldedTable
        heads={[t('insights.from'), t('insights.answers'), t('insights.median'), t('insights.p95')]}
        rows={data.map((step) => ({
          key: String(step.fromMs),
          cells: [step.name, step.calls, inWords(step.median), inWords(step.p95)],
        }))}
      />
    </Figure>
  );
}
