import { useVirtualizer } from '@tanstack/react-virtual';
import { type KeyboardEvent, type MouseEvent, memo, type RefObject, useCallback, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { plainVisible } from '../text/visible-text.ts';
import type { Row } from './arrange.ts';
import { CallRow } from './call-row.tsx';

type Props = {
  readonly rows: readonly Row[];
  readonly marked: ReadonlySet<string>;
  readonly openId: string | undefined;
  /** Filters of the list, as the end of an address. */
  readonly query: string;
  readonly onMark: (ids: readonly string[], on?: boolean) => void;
  readonly onOpen: (callId: string) => void;
};

const CALL_PX = 52;
const GROUP_PX = 30;

function GroupRow({ row, marked, onMark }: { row: Row & { kind: 'group' } } & Pick<Props, 'marked' | 'onMark'>) {
  const { t } = useTranslation();
  const ids = row.calls.map(({ callId }) => callId);
  const count = ids.filter((id) => marked.has(id)).length;
  const name = plainVisible(row.name) || '—';
  return (
    <div className="group-row">
      <input
        type="checkbox"
        className="mark"
        checked={count === ids.length}
        ref={(box) => {
          if (box) box.indeterminate = count > 0 && count < ids.length;
        }}
        onChange={() => onMark(ids, count < ids.length)}
        aria-label={t('inbox.selectGroup', { name })}
      />
      <h2 className="cut grow">
        <bdi>{name}</bdi>
      </h2>
      <span className="tag">{ids.length}</span>
    </div>
  );
}

function useVirtualRows(rows: readonly Row[], box: RefObject<HTMLDivElement | null>) {
  // The same functions while the rows are the same: new ones make the virtualizer lay out every row again.
  const estimateSize = useCallback((index: number) => (rows[index]?.kind === 'group' ? GROUP_PX : CALL_PX), [rows]);
  const getItemKey = useCallback(
    (index: number) => {
      const row = rows[index];
      return row?.kind === 'call' ? row.call.callId : `group ${row?.name}`;
    },
    [rows],
  );
  return useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize,
    getItemKey,
    overscan: 8,
  });
}

/** A click that the browser itself would not send to another tab or window. */
const isPlain = (event: MouseEvent): boolean =>
  event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

/**
 * The waiting calls; only the lines in sight are in the page. Arrow keys move between calls, Space marks. Moving and
 * marking decide nothing.
 */
export const CallList = memo(function CallList({ rows, marked, openId, query, onMark, onOpen }: Props) {
  const { t } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualRows(rows, box);
  // The line that the keys went to last; the focus follows when the line is in the page.
  const target = useRef<number>(undefined);
  const move = (event: KeyboardEvent, step: number) => {
    event.preventDefault();
    const from = (event.target as HTMLElement).closest<HTMLElement>('[data-index]');
    let index = (target.current ?? Number(from?.dataset.index ?? -1)) + step;
    if (rows[index]?.kind === 'group') index += step;
    if (rows[index]?.kind !== 'call') return;
    target.current = index;
    virtual.scrollToIndex(index);
    requestAnimationFrame(() => {
      box.current?.querySelector<HTMLElement>(`[data-index="${target.current}"] a`)?.focus();
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === 'ArrowDown') move(event, 1);
    if (event.key === 'ArrowUp') move(event, -1);
    const callId = (event.target as HTMLElement).dataset.call;
    if (event.key !== ' ' || callId === undefined) return;
    event.preventDefault();
    onMark([callId]);
  };
  const onClick = (event: MouseEvent) => {
    const callId = (event.target as Element).closest<HTMLElement>('a[data-call]')?.dataset.call;
    if (callId === undefined || !isPlain(event)) return;
    event.preventDefault();
    onOpen(callId);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys and clicks are those of the links inside, which are interactive
    <div
      className="call-list"
      ref={box}
      onKeyDown={onKeyDown}
      onClick={onClick}
      onFocus={() => {
        target.current = undefined;
      }}
    >
      <ul aria-label={t('inbox.list')} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          return (
            <li
              key={item.key}
              data-index={item.index}
              aria-setsize={rows.length}
              aria-posinset={item.index + 1}
              style={{ transform: `translateY(${item.start}px)`, height: item.size }}
            >
              {row.kind === 'group' ? (
                <GroupRow row={row} marked={marked} onMark={onMark} />
              ) : (
                <CallRow
                  call={row.call}
                  marked={marked.has(row.call.callId)}
                  open={row.call.callId === openId}
                  query={query}
                  onMark={onMark}
                />
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
});
