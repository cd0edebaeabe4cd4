import { Alert, Button, Textarea, TextInput } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { requestText } from '../api/request.ts';
import { Page } from '../app/page-state.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { RecordSearch } from './record-search.tsx';
import { type Finding, verifyLog } from './verify-log.ts';

function Result({ found, onPin }: { found: Finding; onPin: () => void }) {
  const { t } = useTranslation();
  const { problems, entries, openCalls, moreProblems } = found.verification;
  const clean = problems.length === 0;
  return (
    <section className="card stack" role="status" aria-label={t('audit.result')}>
      <p>
        <span className={clean ? 'tag good' : 'tag bad'}>
          {t(clean ? 'audit.clean' : 'audit.problems', { count: problems.length + moreProblems })}
        </span>{' '}
        {t('audit.entries', { count: entries })} · {t('audit.open', { count: openCalls.length })}
      </p>
      {!clean && (
        <ul className="plain">
          {problems.map((problem) => (
            <li key={`${problem.index} ${problem.code} ${problem.message}`} className="wrap">
              <code>{problem.index ?? '—'}</code> {plainVisible(problem.message)}
            </li>
          ))}
        </ul>
      )}
      {clean && (
        <div className="row">
          <Button size="compact-sm" variant="outline" onClick={onPin}>
            {t('audit.pin')}
          </Button>
          <span className="dim small">{t('audit.pinHint')}</span>
        </div>
      )}
    </section>
  );
}

function download(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'application/x-ndjson' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = 'countersign-audit.ndjson';
  link.click();
  URL.revokeObjectURL(address);
}

/** The record: export it, and verify it in this browser against a key and a checkpoint kept here. */
export function AuditPage() {
  const { t } = useTranslation();
  const [key, setKey] = useLocalStorage({
    key: 'countersign-log-key',
    defaultValue: '',
    getInitialValueInEffect: false,
  });
  const [pinned, setPinned] = useLocalStorage({
    key: 'countersign-pinned',
    defaultValue: '',
    getInitialValueInEffect: false,
  });
  const [text, setText] = useState<string>();
  const verify = useMutation({
    mutationFn: async () => {
      const exported = await requestText('/v1/audit/export');
      setText(exported);
      return verifyLog(exported, key, pinned);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    verify.mutate();
  };
  return (
    <Page title={t('nav.audit')}>
      <RecordSearch />
      <form className="card stack" onSubmit={submit}>
        <h2>{t('audit.verify')}</h2>
        <p className="dim">{t('audit.verifyText')}</p>
        <TextInput
          size="xs"
          label={t('audit.key')}
          description={t('audit.keyHint')}
          value={key}
          onChange={(event) => setKey(event.currentTarget.value.trim())}
        />
        <Textarea
          size="xs"
          label={t('audit.pinned')}
          description={t('audit.pinnedHint')}
          value={pinned}
          autosize
          minRows={2}
          maxRows={8}
          onChange={(event) => setPinned(event.currentTarget.value)}
        />
        <div className="row">
          <Button type="submit" size="sm" loading={verify.isPending} disabled={key === ''}>
            {t('audit.run')}
          </Button>
          {text !== undefined && (
            <Button size="sm" variant="default" onClick={() => download(text)}>
              {t('audit.download')}
            </Button>
          )}
        </div>
      </form>
      {verify.isError && (
        <Alert color="red" role="alert" title={t('audit.failed')}>
          {verify.error.message}
        </Alert>
      )}
      {verify.data && <Result found={verify.data} onPin={() => setPinned(verify.data.checkpoint)} />}
    </Page>
  );
}
