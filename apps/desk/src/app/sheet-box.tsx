import { type ReactNode, useEffect, useRef } from 'react';

/** Holds a wide table. It takes the focus where the table does not fit, so that the keyboard can scroll it. */
export function SheetBox({ children }: { children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const found = box.current;
    if (!found) return;
    const look = () => {
      if (found.scrollWidth > found.clientWidth) found.tabIndex = 0;
      else found.removeAttribute('tabindex');
    };
    const watcher = new ResizeObserver(look);
    watcher.observe(found);
    for (const child of found.children) watcher.observe(child);
    return () => watcher.disconnect();
  }, []);
  return (
    <div className="sheet-wrap" ref={box}>
      {children}
    </div>
  );
}
