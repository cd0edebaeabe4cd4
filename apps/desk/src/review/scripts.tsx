import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { fetchScripts } from '../api/call-context.ts';
import type { CallDetail } from '../api/calls.ts';
import { Loaded } from '../app/page-state.tsx';
import { ExactText } from '../text/exact-text.tsx';
import { plainVisible } from '../text/visible-text.ts';

/** Text of the scripts that the command starts; their digests are part of what is approved. */
export function Scripts({ call }: { call: CallDetail }) {
  const { t } = useTranslation();
  const asks = call.action === 'execute' && call.state === 'pending';
  const scripts = useQuery({
    queryKey: ['call', call.callId, 'scripts', call.viewDigest],
    queryFn: () => fetchScripts(call.callId),
    enabled: asks,
  });
  if (!asks || (scripts.isSuccess && scripts.data.length === 0)) return null;
  return (
    <Loaded query={scripts}>
      {(found) =>
        found.map(({ path, text, problem }) =>
          text === undefined ? (
            <p key={path} className={problem === 'changed' ? 'unseen-warning' : 'dim small'}>
              <bdi className="mono">{plainVisible(path)}</bdi>: {t(`scripts.${problem ?? 'unreadable'}`)}
            </p>
          ) : (
            <ExactText key={path} text={text} label={t('scripts.title', { path: plainVisible(path) })} />
          ),
        )
      }
    </Loaded>
  );
}
