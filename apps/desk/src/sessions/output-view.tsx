import { Button, CopyButton } from '@mantine/core';
import { useLayoutEffect, useMemo, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { visibleParts } from '../text/visible-text.ts';
import { useOutput } from './use-output.ts';

/** A reader who is this near to the end is kept there. */
const NEAR_END_PX = 40;

/** What a command prints, while it does; hidden characters by their numbers. */
export function OutputView({ callId }: { callId: string }) {
  const { t } = useTranslation();
  const { text, cut, droppedBytes, line } = useOutput(callId);
  const box = useRef<HTMLElement>(null);
  const atEnd = useRef(true);
  const shown = useMemo(
    () =>
      visibleParts(text)
        .map((part) => part.text)
        .join(''),
    [text],
  );
  useLayoutEffect(() => {
    if (shown !== '' && box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown]);
  return (
    <div className="stack output" data-output={callId} data-line={line}>
      {cut && <p className="small warn-text">{t('sessions.outputCut')}</p>}
      <section
        ref={box}
        className="output-box"
        aria-label={t('sessions.output')}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
        }}
      >
        <pre className="exact" dir="ltr">
          {shown === '' && line !== 'connecting' ? <span className="dim">{t('sessions.noOutput')}</span> : shown}
        </pre>
        {/* It also lets the keyboard reach the box, which scrolls. */}
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button className="output-copy" size="compact-xs" variant="default" onClick={copy}>
              {copied ? t('text.copied') : t('text.copy')}
            </Button>
          )}
        </CopyButton>
      </section>
      <p className="small dim" role="status">
        {droppedBytes > 0 && `${t('sessions.dropped', { count: droppedBytes })} `}
        {line === 'ended' && t('sessions.ended')}
        {line === 'lost' && t('sessions.lost')}
      </p>
    </div>
  );
}
