import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import * as z from 'zod/mini';
import { request } from '../api/request.ts';
import { Loaded, Page } from '../app/page-state.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { ExactText } from '../text/exact-text.tsx';
import { plainVisible } from '../text/visible-text.ts';

const rule = z.object({
  toolName: z.string(),
  pattern: z.optional(z.string()),
  reason: z.optional(z.string()),
  id: z.optional(z.string()),
});
const rules = z.optional(z.array(rule));
const policySchema = z.object({
  version: z.number(),
  digest: z.string(),
  source: z.string(),
  by: z.string(),
  policy: z.object({
    permissions: z.looseObject({
      mode: z.optional(z.string()),
      denyRules: rules,
      askRules: rules,
      allowRules: rules,
      allowedHosts: z.optional(z.array(z.string())),
    }),
    ceilings: z.looseObject({}),
    security: z.looseObject({}),
  }),
});
type Policy = z.infer<typeof policySchema>;

const LISTS = [
  ['denyRules', 'policy.deny', 'bad'],
  ['askRules', 'policy.ask', 'warn'],
  ['allowRules', 'policy.allow', 'good'],
] as const;

function Rules({ permissions }: { permissions: Policy['policy']['permissions'] }) {
  const { t } = useTranslation();
  const all = LISTS.flatMap(([list, word, tone]) => (permissions[list] ?? []).map((found) => ({ found, word, tone })));
  if (all.length === 0) return <p className="dim">{t('policy.noRules')}</p>;
  return (
    <SheetBox>
      <table className="sheet">
        <thead>
          <tr>
            <th>{t('policy.effect')}</th>
            <th>{t('call.tool')}</th>
            <th>{t('policy.pattern')}</th>
            <th>{t('decide.reason')}</th>
          </tr>
        </thead>
        <tbody>
          {all.map(({ found, word, tone }) => (
            <tr key={`${word} ${found.toolName} ${found.pattern} ${found.id}`}>
              <td>
                <span className={`tag ${tone}`}>{t(word)}</span>
              </td>
              <td className="mono">{plainVisible(found.toolName)}</td>
              <td className="mono">
                <bdi>{plainVisible(found.pattern ?? '*')}</bdi>
              </td>
              <td>{plainVisible(found.reason ?? found.id ?? '')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}

function Shown({ found }: { found: Policy }) {
  const { t } = useTranslation();
  const { permissions, ceilings, security } = found.policy;
  return (
    <>
      <dl className="facts card">
        <dt>{t('policy.version')}</dt>
        <dd>{found.version}</dd>
        <dt>{t('policy.digest')}</dt>
        <dd className="mono">{found.digest}</dd>
        <dt>{t('policy.source')}</dt>
        <dd>
          {plainVisible(found.source)} {found.by === '' ? '' : `· ${plainVisible(found.by)}`}
        </dd>
        <dt>{t('review.mode')}</dt>
        <dd>{permissions.mode ?? '—'}</dd>
        <dt>{t('policy.hosts')}</dt>
        <dd className="mono">{(permissions.allowedHosts ?? []).map(plainVisible).join(', ') || '—'}</dd>
      </dl>
      <Rules permissions={permissions} />
      <ExactText text={JSON.stringify({ ceilings, security }, undefined, 2)} label={t('policy.limits')} />
      <details>
        <summary>{t('policy.whole')}</summary>
        <ExactText text={JSON.stringify(found.policy, undefined, 2)} label={t('policy.whole')} />
      </details>
    </>
  );
}

/** The organisation's policy in force: version, rules by effect, ceilings and security settings. */
export function PolicyPage() {
  const { t } = useTranslation();
  const policy = useQuery({ queryKey: ['policy'], queryFn: () => request('/v1/policy', policySchema) });
  return (
    <Page title={t('nav.policy')}>
      <Loaded query={policy}>{(found) => <Shown found={found} />}</Loaded>
    </Page>
  );
}
