import { Alert, Button, Modal, Textarea } from '@mantine/core';
import { useQueries } from '@tanstack/react-query';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type Answer, type Call, type CallDetail, decideCall, fetchCall } from '../api/calls.ts';
import type { Assertion } from '../api/passkeys.ts';
import { useMe } from '../app/me-context.tsx';
import { useProblemText } from '../passkeys/passkey-problem.tsx';
import { signApprovals } from '../passkeys/sign-approvals.ts';
import { CallBody } from '../review/call-body.tsx';
import { useStateName } from '../review/state-name.tsx';
import { useGuardTime } from '../review/use-guard-time.ts';
import { alikeName } from './arrange.ts';

/** Calls that one dialog shows whole. */
const MAX_CALLS = 50;
const AT_ONCE = 4;

type Progress =
  | { readonly kind: 'sent' }
  | { readonly kind: 'done'; readonly state: string }
  | { readonly kind: 'failed'; readonly message: string };

/** Answers the calls one by one, a few at a time; each is a decision of its own, and each failure is told at its call. */
function useBulkAnswer(onRecorded: (callId: string) => void) {
  const me = useMe();
  const [progress, setProgress] = useState<ReadonlyMap<string, Progress>>(new Map());
  const textOf = useProblemText();
  const [running, setRunning] = useState(false);
  const tell = (callId: string, told: Progress) => setProgress((before) => new Map(before).set(callId, told));
  const answerOne = async (call: CallDetail, answer: Answer, assertion?: Assertion) => {
    tell(call.callId, { kind: 'sent' });
    try {
      const { state } = await decideCall(call, answer, me.csrf, assertion);
      tell(call.callId, { kind: 'done', state });
      onRecorded(call.callId);
    } catch (error) {
      tell(call.callId, { kind: 'failed', message: error instanceof Error ? error.message : String(error) });
    }
  };
  const answerAll = async (calls: readonly CallDetail[], answer: Answer) => {
    setRunning(true);
    const open = calls.filter(({ callId }) => progress.get(callId)?.kind !== 'done');
    try {
      const signed = answer.answer === 'approve' ? await signApprovals(open, me) : new Map<string, Assertion>();
      const worker = async () => {
        for (let call = open.shift(); call; call = open.shift()) await answerOne(call, answer, signed.get(call.callId));
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
    } catch (error) {
      const message = textOf(error instanceof Error ? error : new Error(String(error)));
      for (const { callId } of open) tell(callId, { kind: 'failed', message });
    }
    setRunning(false);
  };
  return { progress, running, answerAll };
}

function ProgressText({ progress }: { progress: Progress | undefined }) {
  const { t } = useTranslation();
  const nameOf = useStateName();
  if (!progress) return <span className="tag">{t('bulk.state.ready')}</span>;
  if (progress.kind === 'sent') return <span className="tag accent">{t('bulk.state.sent')}</span>;
  if (progress.kind === 'done')
    return <span className="tag good">{t('bulk.state.done', { state: nameOf(progress.state) })}</span>;
  return (
    <span className="tag bad" role="alert">
      {t('bulk.state.failed', { message: progress.message })}
    </span>
  );
}

function Texts({ details, progress }: { details: readonly CallDetail[]; progress: ReadonlyMap<string, Progress> }) {
  const { t } = useTranslation();
  return (
    <ol className="bulk-list">
      {details.map((call) => (
        <li key={call.callId} className="card" data-bulk={call.callId}>
          <div className="row spread">
            <bdi>{t('call.on', { agent: call.agent, host: call.host })}</bdi>
            <ProgressText progress={progress.get(call.callId)} />
          </div>
          <CallBody call={call} />
        </li>
      ))}
    </ol>
  );
}

type Props = {
  readonly ids: readonly string[];
  readonly calls: readonly Call[];
  readonly onClose: () => void;
  readonly onRecorded: (callId: string) => void;
};

/** Several calls, each shown whole, answered together. */
export function BulkDialog({ ids, calls, onClose, onRecorded }: Props) {
  const { t } = useTranslation();
  const [shownIds] = useState(() => ids.slice(0, MAX_CALLS));
  const [alike] = useState(
    () => new Set(calls.filter(({ callId }) => shownIds.includes(callId)).map(alikeName)).size === 1,
  );
  const [reason, setReason] = useState('');
  const found = useQueries({
    queries: shownIds.map((id) => ({ queryKey: ['call', id], queryFn: () => fetchCall(id), staleTime: Infinity })),
  });
  const details = found.flatMap(({ data }) => (data ? [data] : []));
  const problem = found.find(({ isError }) => isError)?.error;
  const { progress, running, answerAll } = useBulkAnswer(onRecorded);
  const done = [...progress.values()].filter(({ kind }) => kind === 'done').length;
  const settled = useGuardTime(shownIds.join());
  const left = details.length - done;
  const held = !settled || running || details.length < shownIds.length || left === 0;
  return (
    <Modal
      opened
      onClose={onClose}
      title={t('bulk.title', { count: shownIds.length })}
      closeButtonProps={{ 'aria-label': t('app.close') }}
      size="xl"
      // The lock would write a style element, which the content security policy stops.
      lockScroll={false}
      transitionProps={{ duration: 0 }}
    >
      <div className="stack">
        <p>{t('bulk.each')}</p>
        {!alike && <p className="warn-text">{t('bulk.notAlike')}</p>}
        {ids.length > shownIds.length && <p className="warn-text">{t('bulk.limit', { count: shownIds.length })}</p>}
        {problem && (
          <Alert color="red" role="alert" title={t('app.problem')}>
            {problem.message}
          </Alert>
        )}
        <Texts details={details} progress={progress} />
        <Textarea
          size="xs"
          label={t('decide.reason')}
          placeholder={t('decide.reasonHint')}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          maxLength={2_000}
        />
        <div className="row">
          <Button disabled={held} onClick={() => void answerAll(details, { answer: 'approve', reason })}>
            {t('bulk.approve', { count: left })}
          </Button>
          <Button
            variant="outline"
            color="red"
            disabled={held || reason.trim() === ''}
            onClick={() => void answerAll(details, { answer: 'deny', reason })}
          >
            {t('bulk.deny', { count: left })}
          </Button>
          {progress.size > 0 && (
            <span role="status" className="dim">
              {t('bulk.progress', { done, count: shownIds.length })}
            </span>
          )}
        </div>
      </div>
    </Modal>
  );
}
