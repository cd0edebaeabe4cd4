import { useTranslation } from 'react-i18next';
import { Bar, BarChart, Legend, XAxis, YAxis } from 'recharts';
import type { Insight } from '../api/insights.ts';
import { plainVisible } from '../text/visible-text.ts';
import { Chart, Figure, FigureTable, legendName } from './figure.tsx';

const TICK = { fill: 'var(--dim)', fontSize: 11 } as const;
const BAR_PX = 34;
const EDGE_PX = 70;

/** How often the opinions of each model version were those of people. */
export function GuardianAgreement({ found }: { found: Insight }) {
  const { t } = useTranslation();
  const kinds = [
    ['agreed', t('guardian.agreed'), 'var(--chart-2)'],
    ['approvedButDenied', t('guardian.approvedButDenied'), 'var(--chart-4)'],
    ['deniedButApproved', t('guardian.deniedButApproved'), 'var(--chart-5)'],
  ] as const;
  const models = found.rows.map((row, at) => ({
    number: at + 1,
    version: plainVisible(String(row.version)),
    calls: Number(row.calls),
    agreed: Number(row.agreed_calls),
    approvedButDenied: Number(row.approved_but_denied_calls),
    deniedButApproved: Number(row.denied_but_approved_calls),
  }));
  return (
    <Figure title={t('insights.guardian')} about={t('insights.guardianText')} found={found}>
      <div className="ranked">
        <Chart label={t('insights.guardian')} height={models.length * BAR_PX + EDGE_PX}>
          <BarChart data={models} layout="vertical" accessibilityLayer={false}>
            <XAxis type="number" allowDecimals={false} tick={TICK} stroke="var(--line)" />
            <YAxis type="category" dataKey="number" width={28} interval={0} tick={TICK} stroke="var(--line)" />
            <Legend formatter={legendName} />
            {kinds.map(([key, name, fill]) => (
              <Bar key={key} dataKey={key} name={name} fill={fill} stackId="all" isAnimationActive={false} />
            ))}
          </BarChart>
        </Chart>
        <FigureTable
          heads={['#', t('guardian.model'), ...kinds.map(([, name]) => name), t('insights.rate')]}
          rows={models.map((model) => ({
            key: model.version,
            cells: [
              model.number,
              <bdi key="version">{model.version}</bdi>,
              ...kinds.map(([key]) => model[key]),
              `${Math.round((100 * model.agreed) / Math.max(1, model.calls))} %`,
            ],
          }))}
        />
      </div>
    </Figure>
  );
}
