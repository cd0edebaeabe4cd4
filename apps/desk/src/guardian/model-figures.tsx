import { useTranslation } from 'react-i18next';
import { type Agreement, type ModelFigures, setStanding } from '../api/guardian.ts';
import { mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { ReasonedAct } from './reasoned-act.tsx';

const percent = (share: number): string => `${Math.round(share * 100)} %`;

function Model({ model }: { model: ModelFigures }) {
  const { t } = useTranslation();
  const me = useMe();
  const decides = model.standing === 'deciding';
  const next = decides ? 'advising' : 'deciding';
  return (
    <tr data-model={model.version}>
      <td className="wrap">
        <bdi className="mono">{plainVisible(model.version)}</bdi>
        {model.proposal && (
          <p className="warn-text">
            {t('guardian.proposal', { rate: percent(model.proposal.rate), count: model.proposal.compared })}
          </p>
        )}
      </td>
      <td>
        <span className={decides ? 'tag good' : 'tag warn'}>{t(`guardian.${model.standing}`)}</span>
      </td>
      <td>
        {model.agreed} / {model.compared}
        {model.recentRate !== undefined && (
          <div className="dim small">{t('guardian.recent', { rate: percent(model.recentRate) })}</div>
        )}
      </td>
      <td>{model.approvedButDenied}</td>
      <td>{model.deniedButApproved}</td>
      <td>{model.failed}</td>
      <td>
        {mayOperate(me) && (
          <ReasonedAct
            label={t(`guardian.make.${next}`)}
            act={(reason) => setStanding({ version: model.version, standing: next, reason }, me.csrf)}
          />
        )}
      </td>
    </tr>
  );
}

/** How the opinions of each model version stand beside people's answers, and whether it decides. */
export function ModelTable({ agreement: { models, shadow, threshold } }: { agreement: Agreement }) {
  const { t } = useTranslation();
  return (
    <section className="stack">
      <h2>{t('guardian.models')}</h2>
      <p className="dim small">
        {t(shadow ? 'guardian.shadowOn' : 'guardian.shadowOff')}{' '}
        {t('guardian.threshold', { rate: percent(threshold.least), count: threshold.fromComparisons })}
      </p>
      {models.length === 0 ? (
        <p className="empty">{t('guardian.noModel')}</p>
      ) : (
        <SheetBox>
          <table className="sheet">
            <thead>
              <tr>
                <th>{t('guardian.model')}</th>
                <th>{t('guardian.standing')}</th>
                <th>{t('guardian.agreed')}</th>
                <th>{t('guardian.approvedButDenied')}</th>
                <th>{t('guardian.deniedButApproved')}</th>
                <th>{t('guardian.failed')}</th>
                <th>
                  <span className="only-heard">{t('guardian.change')}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {models.map((model) => (
                <Model key={model.version} model={model} />
              ))}
            </tbody>
          </table>
        </SheetBox>
      )}
    </section>
  );
}
