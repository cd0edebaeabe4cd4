import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useSyncExternalStore } from 'react';
import { fetchWaiting } from '../api/calls.ts';
import { followEvents } from './follow-events.ts';
import { LiveCalls, type Snapshot } from './live-calls.ts';

const Context = createContext<LiveCalls | undefined>(undefined);

/** Keeps one line to the gateway for everything below it. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const live = useMemo(() => new LiveCalls({ read: fetchWaiting }, (run) => setTimeout(run, 50)), []);
  const client = useQueryClient();
  useEffect(() => followEvents(live, () => void client.invalidateQueries({ queryKey: ['requests'] })), [live, client]);
  return <Context value={live}>{children}</Context>;
}

/** The live calls themselves. */
export function useLiveCalls(): LiveCalls {
  const live = useContext(Context);
  if (!live) throw new Error('no LiveProvider above');
  return live;
}

/** What waits at this moment. */
export function useWaiting(): Snapshot {
  const live = useLiveCalls();
  return useSyncExternalStore(live.watch, live.snapshot);
}
