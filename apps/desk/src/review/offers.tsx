import { Button } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import type { CallDetail } from '../api/calls.ts';
import { plainVisible } from '../text/visible-text.ts';

type Rule = NonNullable<NonNullable<CallDetail['view']['offers']>['always']>;

function Lines({ texts }: { texts: readonly string[] }) {
  return (
    <ul className="plain">
      {texts.map((text) => (
        <li key={text} className="wrap">
          <bdi>{plainVisible(text)}</bdi>
        </li>
      ))}
    </ul>
  );
}

/** What a grant for the session would cover. */
export function Coverage({ covers }: { covers: readonly string[] }) {
  const { t } = useTranslation();
  return (
    <details className="small coverage">
      <summary>{t('decide.covers')}</summary>
      <Lines texts={covers} />
    </details>
  );
}

/** The rule that `always` saves, whole; its button stands below it, so that nobody keeps what they have not opened. */
export function AlwaysOffer({ rule, held, onApprove }: { rule: Rule; held: boolean; onApprove: () => void }) {
  const { t, i18n } = useTranslation();
  const expires = new Intl.DateTimeFormat(i18n.language, { dateStyle: 'long' }).format(rule.expiresMs);
  const facts = [
    ['always.says', <Lines key="says" texts={rule.says} />],
    ['always.layer', t('always.local')],
    ['always.reach', <bdi key="reach">{plainVisible(rule.reach)}</bdi>],
    ['always.folder', rule.folder === undefined ? undefined : <bdi key="folder">{plainVisible(rule.folder)}</bdi>],
    ['always.files', rule.files.length === 0 ? undefined : <Lines key="files" texts={rule.files} />],
    ['always.expires', expires],
  ] as const;
  return (
    <details className="small coverage always">
      <summary>{t('always.title')}</summary>
      <dl className="facts">
        {facts.map(([word, value]) =>
          value === undefined ? null : (
            <div key={word} className="fact-line">
              <dt>{t(word)}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
      <p className="dim">{t(rule.proposal ? 'always.proposal' : 'always.atOnce')}</p>
      <Button size="compact-sm" variant="light" disabled={held} onClick={onApprove}>
        {t(rule.proposal ? 'always.propose' : 'always.approve')}
      </Button>
    </details>
  );
}
