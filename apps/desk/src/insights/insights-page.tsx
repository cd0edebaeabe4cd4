import { NativeSelect, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { fetchInsight, type InsightFilters, type InsightName } from '../api/insights.ts';
import { seesRecord } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded, Page } from '../app/page-state.tsx';
import { GuardianAgreement } from './guardian-figures.tsx';
import './insights.css';
import { PERIODS, type Period, periodOf, stepsOf } from './period.ts';
import { Ranked } from './ranked-figures.tsx';
import { DecisionTimes, Volumes } from './time-figures.tsx';

const LIMITS = ['queue', 'host', 'agent'] as const;
type Limits = Readonly<Record<(typeof LIMITS)[number], string>>;

/** Words of the record as the desk says them; others are shown as they are. */
const BY = ['human', 'rule', 'guardian'] as const;
const EFFECTS = ['allow', 'ask', 'deny'] as const;

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value).slice(0, 200) : '';

function useInsightAddress() {
  const found = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const limits = { queue: textOf(found.queue), host: textOf(found.host), agent: textOf(found.agent) };
  const period = periodOf(found.period);
  const set = (next: Limits & { readonly period: Period }) =>
    void navigate({
      to: '/insights',
      search: Object.fromEntries(Object.entries(next).filter(([, value]) => value !== '')),
      replace: true,
    });
  return { period, limits, set };
}

function LimitForm({ period, limits, set }: ReturnType<typeof useInsightAddress>) {
  const { t } = useTranslation();
  const [form, setForm] = useState<Limits>(limits);
  const use = () => set({ ...form, period });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    use();
  };
  return (
    <form className="field-grid" onSubmit={submit}>
      <NativeSelect
        size="xs"
        label={t('insights.period')}
        value={period}
        onChange={(event) => set({ ...form, period: periodOf(event.currentTarget.value) })}
        data={(Object.keys(PERIODS) as Period[]).map((value) => ({ value, label: t(`insights.period.${value}`) }))}
      />
      {LIMITS.map((name) => (
        <TextInput
          key={name}
          size="xs"
          label={t(`inbox.filter.${name}`)}
          value={form[name]}
          maxLength={200}
          onChange={(event) => setForm({ ...form, [name]: event.currentTarget.value })}
          onBlur={use}
        />
      ))}
      <button type="submit" className="only-heard" tabIndex={-1}>
        {t('audit.find')}
      </button>
    </form>
  );
}

const useInsight = (name: InsightName, filters: InsightFilters) =>
  useQuery({ queryKey: ['insight', name, filters], queryFn: () => fetchInsight(name, filters), staleTime: 60_000 });

function Figures({ period, limits }: { period: Period; limits: Limits }) {
  const { t } = useTranslation();
  const byName = (value: unknown) => {
    const by = BY.find((one) => one === value);
    return by === undefined ? String(value) : t(`insights.by.${by}`);
  };
  const effectName = (value: unknown) => {
    const effect = EFFECTS.find((one) => one === value);
    return effect === undefined ? String(value) : t(`insights.effect.${effect}`);
  };
  // The time of opening: figures that moved while they are read could not be compared with each other.
  const [openedMs] = useState(Date.now);
  const steps = stepsOf(period, openedMs);
  const filters = { ...limits, sinceMs: steps[0] ?? openedMs, stepMinutes: PERIODS[period].stepMinutes };
  const volumes = useInsight('volumes', filters);
  const times = useInsight('decision-times', filters);
  const reasons = useInsight('deny-reasons', filters);
  const rules = useInsight('busiest-rules', filters);
  const guardian = useInsight('guardian-compared', filters);
  return (
    <>
      <Loaded query={volumes}>{(found) => <Volumes found={found} period={period} steps={steps} />}</Loaded>
      <Loaded query={times}>{(found) => <DecisionTimes found={found} period={period} steps={steps} />}</Loaded>
      <Loaded query={reasons}>
        {(found) => (
          <Ranked
            title={t('insights.reasons')}
            about={t('insights.reasonsText')}
            found={found}
            heads={[t('insights.reason'), t('insights.by')]}
            textOf={({ reason }) => String(reason)}
            besideOf={({ decided_by: by }) => byName(by)}
          />
        )}
      </Loaded>
      <Loaded query={rules}>
        {(found) => (
          <Ranked
            title={t('insights.rules')}
            about={t('insights.rulesText')}
            found={found}
            heads={[t('insights.rule'), t('insights.effect')]}
            textOf={({ rule }) => String(rule)}
            besideOf={({ effect }) => effectName(effect)}
          />
        )}
      </Loaded>
      <Loaded query={guardian}>{(found) => <GuardianAgreement found={found} />}</Loaded>
    </>
  );
}

/** How the work of deciding goes: volumes, times, reasons, rules and the Guardian's agreement, out of the record. */
export function InsightsPage() {
  const { t } = useTranslation();
  const address = useInsightAddress();
  return (
    <Page title={t('nav.insights')}>
      {seesRecord(useMe()) ? (
        <>
          <LimitForm {...address} />
          <Figures period={address.period} limits={address.limits} />
        </>
      ) : (
        <p className="empty">{t('insights.forbidden')}</p>
      )}
    </Page>
  );
}
