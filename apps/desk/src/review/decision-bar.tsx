import { Alert, Button, Kbd, Textarea } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type RefObject, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type Answer, type CallDetail, type Kept, stopTurn } from '../api/calls.ts';
import { mayDecide, mayOperate } from '../api/me.ts';
import { ApiError } from '../api/request.ts';
import { useMe } from '../app/me-context.tsx';
import { useProblemText } from '../passkeys/passkey-problem.tsx';
import { canNarrow, NarrowPanel, NOTHING_TAKEN, narrowingOf } from './narrow-panel.tsx';
import { AlwaysOffer, Coverage } from './offers.tsx';
import { readableArguments } from './readable-arguments.ts';
import { useGuardTime } from './use-guard-time.ts';

type Props = {
  readonly call: CallDetail;
  readonly endOfText: RefObject<HTMLDivElement | null>;
  readonly onReadAgain: () => void;
  readonly onRecorded: () => void;
};

/** True until the end of the exact text was in sight. */
function useUnseenEnd(end: RefObject<HTMLDivElement | null>): boolean {
  const [unseen, setUnseen] = useState(false);
  useEffect(() => {
    if (!end.current) return undefined;
    const observer = new IntersectionObserver(([entry]) => setUnseen(!entry?.isIntersecting));
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [end]);
  return unseen;
}

/** Alt+Shift with a letter, by the place of the key, so that it works in every layout. */
function useDecisionKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const run =
        event.altKey && event.shiftKey && !event.repeat
          ? latest.current[event.code.replace('Key', '').toLowerCase()]
          : undefined;
      if (!run || document.querySelector('[role="dialog"]')) return;
      event.preventDefault();
      run();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}

type FullAnswer = Answer & {
  /** Also ends the turn that the call belongs to; first, so that a failure leaves the call here with its error. */
  readonly stopsTurn?: boolean;
};

function useAnswer({ call, onReadAgain, onRecorded }: Props) {
  const me = useMe();
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ stopsTurn, ...answer }: FullAnswer) => {
      if (stopsTurn) await stopTurn(call.callId, answer.reason, me.csrf);
      const { decideProven } = await import('../passkeys/sign-approvals.ts');
      return decideProven(call, answer, me);
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['call', call.callId], exact: true });
      onRecorded();
    },
    onError: (error) => {
      if (error instanceof ApiError && error.status === 409) onReadAgain();
    },
  });
}

/** The texts that nobody can approve: nothing would show what runs. */
const isEmpty = (call: CallDetail): boolean => readableArguments(call.tool, call.arguments).main.trim() === '';

function UnseenHint({ call, endOfText }: Pick<Props, 'call' | 'endOfText'>) {
  const { t } = useTranslation();
  const unseen = useUnseenEnd(endOfText);
  if (!unseen) return null;
  const text = readableArguments(call.tool, call.arguments).main;
  return (
    <div className="row spread small unseen-hint">
      <span>{t('text.below', { lines: text.split('\n').length, characters: text.length })}</span>
      <Button size="compact-xs" variant="subtle" onClick={() => endOfText.current?.scrollIntoView({ block: 'end' })}>
        {t('text.jump')}
      </Button>
    </div>
  );
}

/**
 * The answers to a waiting call. They need a settled card, and keys need two modifiers. A failed answer stays here with its
 * error; the call leaves only when the gateway has recorded the decision.
 */
export function DecisionBar(props: Props) {
  const { call, endOfText } = props;
  const { t } = useTranslation();
  const me = useMe();
  const [reason, setReason] = useState('');
  const [wantsReason, setWantsReason] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const answer = useAnswer(props);
  const problemText = useProblemText();
  const settled = useGuardTime(call.viewDigest);
  const held = !settled || answer.isPending || answer.isSuccess;
  const [taken, setTaken] = useState(NOTHING_TAKEN);
  const narrow = narrowingOf(taken, call);
  const { session: covers, always } = call.view.offers ?? {};
  const cannotApprove = held || isEmpty(call) || narrow === false;
  const approve = (remember?: Kept) => {
    if (held || isEmpty(call) || narrow === false) return;
    answer.mutate({ answer: 'approve', reason, narrow, ...(remember === undefined ? {} : { remember }) });
  };
  const deny = (stopsTurn = false) => {
    if (held) return;
    if (reason.trim() === '') {
      setWantsReason(true);
      box.current?.focus();
      return;
    }
    answer.mutate({ answer: 'deny', reason, stopsTurn });
  };
  useDecisionKeys({ a: () => approve(), d: () => deny(), ...(covers ? { s: () => approve('session') } : {}) });
  if (!mayDecide(me)) return <p className="decision dim">{t('decide.viewer')}</p>;
  return (
    <section className="decision" aria-label={t('decide.label')} data-settled={settled}>
      <UnseenHint call={call} endOfText={endOfText} />
      {answer.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {problemText(answer.error)}
        </Alert>
      )}
      <Textarea
        ref={box}
        size="xs"
        label={t('decide.reason')}
        placeholder={t('decide.reasonHint')}
        error={wantsReason && reason.trim() === '' ? t('decide.reasonMissing') : undefined}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={2_000}
        minRows={1}
        maxRows={5}
        autosize
      />
      {covers && <Coverage covers={covers} />}
      {always && mayOperate(me) && (
        <AlwaysOffer rule={always} held={cannotApprove || narrow !== undefined} onApprove={() => approve('always')} />
      )}
      {call.passkey && <p className="small dim">{t('passkey.needed')}</p>}
      {call.refusal && <p className="small warn-text">{t('decide.refusal', { why: call.refusal })}</p>}
      {canNarrow(call) && <NarrowPanel call={call} form={taken} onChange={setTaken} />}
      <div className="row">
        <Button size="sm" disabled={cannotApprove} loading={answer.isPending} onClick={() => approve()}>
          {t(narrow ? 'decide.approveNarrowed' : 'decide.approve')}
        </Button>
        {covers && (
          <Button size="sm" variant="light" disabled={cannotApprove} onClick={() => approve('session')}>
            {t('decide.session')}
          </Button>
        )}
        <Button size="sm" variant="outline" color="red" disabled={held} onClick={() => deny()}>
          {t('decide.deny')}
        </Button>
        <Button size="sm" variant="subtle" color="red" disabled={held} onClick={() => deny(true)}>
          {t('decide.denyAndStop')}
        </Button>
        <span className="small dim keys">
          <Kbd size="xs">Alt+Shift+A</Kbd> {t('decide.approve')} <Kbd size="xs">Alt+Shift+D</Kbd> {t('decide.deny')}
        </span>
      </div>
    </section>
  );
}
