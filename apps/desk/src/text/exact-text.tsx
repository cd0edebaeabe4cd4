import { Button, CopyButton } from '@mantine/core';
import { memo } from 'react';
import { useTranslation } from 'react-i18next';
import './exact-text.css';
import { type Segment, type Stretch, type Token, textSegments } from './text-segments.ts';

type Props = {
  readonly text: string;
  readonly label: string;
  readonly tokens?: readonly Token[] | undefined;
  readonly stretches?: readonly Stretch[] | undefined;
};

function Piece({ segment }: { segment: Segment }) {
  const { text, kind, token } = segment;
  if (kind !== 'plain') return <mark className={`unseen ${kind}`}>{text}</mark>;
  return token === undefined ? text : <span className={`word-${token}`}>{text}</span>;
}

/** Segments of one stretch stand in one mark, so that it reads as one. */
function stretchesOf(segments: readonly Segment[]): (readonly Segment[])[] {
  const groups: Segment[][] = [];
  for (const segment of segments) {
    const last = groups.at(-1);
    if (last && last[0]?.stretch === segment.stretch) last.push(segment);
    else groups.push([segment]);
  }
  return groups;
}

const Lines = memo(function Lines({ segments }: { segments: readonly Segment[] }) {
  return stretchesOf(segments).map((group) => {
    const { stretch, start } = group[0] as Segment;
    const pieces = group.map((segment) => <Piece key={segment.start} segment={segment} />);
    if (!stretch) return <span key={start}>{pieces}</span>;
    return (
      <span key={start} className={`decides ${stretch.effect}`} data-number={stretch.number}>
        {pieces}
      </span>
    );
  });
});

/** What in the text a reader would not have seen. */
function Warnings({ segments }: { segments: readonly Segment[] }) {
  const { t } = useTranslation();
  const hidden = segments.filter(({ kind }) => kind === 'hidden').length;
  const blanks = segments.filter(({ kind }) => kind === 'blanks').length;
  if (hidden + blanks === 0) return null;
  return (
    <div className="unseen-warning" role="note">
      <strong>{t('text.warning')}</strong>
      {hidden > 0 && <div>{t('text.hidden', { count: hidden })}</div>}
      {blanks > 0 && <div>{t('text.blanks', { count: blanks })}</div>}
    </div>
  );
}

/**
 * A whole text, wrapped and never cut, in the order of its characters whatever their direction, with everything invisible
 * named and words and deciding parts marked.
 */
export function ExactText({ text, label, tokens, stretches }: Props) {
  const { t } = useTranslation();
  const segments = textSegments(text, tokens, stretches);
  const lines = text.split('\n').length;
  return (
    <div>
      <div className="exact-head">
        <h2>{label}</h2>
        <span className="dim small">{t('text.size', { lines, characters: text.length })}</span>
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button size="compact-xs" variant="subtle" onClick={copy}>
              {copied ? t('text.copied') : t('text.copy')}
            </Button>
          )}
        </CopyButton>
      </div>
      <pre className="exact" dir="ltr" data-exact={label}>
        <Lines segments={segments} />
      </pre>
      <Warnings segments={segments} />
    </div>
  );
}
