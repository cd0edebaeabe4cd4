import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchLayerFiles, type LayerFile, trustFile } from '../api/layers.ts';
import { mayOperate } from '../api/me.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded } from '../app/page-state.tsx';
import { ActButton } from '../grants/act-button.tsx';
import { ExactText } from '../text/exact-text.tsx';
import { plainVisible } from '../text/visible-text.ts';

/** Layers whose files stand in the workspace, where an agent may have written them. */
const IN_WORKSPACE = ['project', 'local'];

function FileLine({ session, file }: { session: string; file: LayerFile }) {
  const { t } = useTranslation();
  const me = useMe();
  const { layer, digest, content } = file;
  const mayTrust = mayOperate(me) && file.state !== 'trusted' && content !== undefined && IN_WORKSPACE.includes(layer);
  return (
    <li className="stack" data-layer={layer}>
      <p className="row">
        <span className="tag">{plainVisible(layer)}</span>
        <span className={file.state === 'trusted' ? 'tag good' : 'tag warn'}>{t(`layers.state.${file.state}`)}</span>
        <bdi className="mono wrap">{plainVisible(file.path ?? '')}</bdi>
      </p>
      <p className="dim small mono wrap">{digest}</p>
      {file.problem !== undefined && file.problem !== '' && <p className="warn-text">{plainVisible(file.problem)}</p>}
      {content !== undefined && (
        <details>
          <summary>{t('layers.content')}</summary>
          <ExactText text={JSON.stringify(content, undefined, 2)} label={t('layers.content')} />
          {mayTrust && (
            <ActButton
              label={t('layers.trust')}
              act={() => trustFile({ session, layer, digest }, me.csrf)}
              reads="layers"
            />
          )}
        </details>
      )}
    </li>
  );
}

/** Permission files that a session is decided on; the content has to be opened before it can be trusted. */
export function SessionFiles({ session }: { session: string }) {
  const { t } = useTranslation();
  const files = useQuery({ queryKey: ['layers', session], queryFn: () => fetchLayerFiles(session) });
  return (
    <section className="card stack" aria-label={t('layers.title')}>
      <h2>{t('layers.title')}</h2>
      <Loaded query={files}>
        {(found) =>
          found.length === 0 ? (
            <p className="dim">{t('layers.none')}</p>
          ) : (
            <ul className="plain stack">
              {found.map((file) => (
                <FileLine key={`${file.layer} ${file.digest}`} session={session} file={file} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}
