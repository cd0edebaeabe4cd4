import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchRules, publishRule, revokeRule, type SavedRule } from '../api/layers.ts';
import { mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Sheet } from '../app/sheet.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { ActButton } from './act-button.tsx';

function RuleRow({ rule }: { rule: SavedRule }) {
  const { t, i18n } = useTranslation();
  const me = useMe();
  const isProposed = rule.state === 'proposed';
  return (
    <tr data-rule={rule.id}>
      <td className="wrap">
        {rule.says.map((says) => (
          <div key={says}>
            <bdi>{plainVisible(says)}</bdi>
          </div>
        ))}
        <div className="dim small">
          <bdi>{plainVisible([rule.reach, rule.folder ?? ''].filter(Boolean).join(' · '))}</bdi>
        </div>
      </td>
      <td>
        <span className={isProposed ? 'tag warn' : 'tag good'}>{t(`rules.${rule.state}`)}</span>
      </td>
      <td>{plainVisible(rule.by)}</td>
      <td>
        {rule.expiresMs === null
          ? t('rules.noEnd')
          : new Intl.DateTimeFormat(i18n.language, { dateStyle: 'medium' }).format(rule.expiresMs)}
      </td>
      <td>
        {mayOperate(me) && (
          <span className="row tight">
            {isProposed && (
              <ActButton label={t('rules.publish')} act={() => publishRule(rule.id, me.csrf)} reads="rules" />
            )}
            <ActButton label={t('grants.revoke')} act={() => revokeRule(rule.id, me.csrf)} reads="rules" isTaking />
          </span>
        )}
      </td>
    </tr>
  );
}

/** Rules that people saved with "approve always". */
export function SavedRules() {
  const { t } = useTranslation();
  const rules = useQuery({ queryKey: ['rules'], queryFn: fetchRules });
  return (
    <section className="stack" aria-label={t('rules.title')}>
      <h2>{t('rules.title')}</h2>
      <Sheet
        query={rules}
        none={<p className="dim">{t('rules.none')}</p>}
        heads={[t('always.says'), t('rules.state'), t('grants.by'), t('always.expires')]}
        acts={t('grants.revoke')}
        row={(rule) => <RuleRow key={rule.id} rule={rule} />}
      />
    </section>
  );
}
