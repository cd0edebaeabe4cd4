import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';

/** State of the event stream. */
export type Live = 'connecting' | 'live' | 'offline';

const EVENTS = ['approval_request', 'approval_resolved', 'call', 'reset'] as const;

/**
 * Follows the gateway's events and re-reads the waiting calls on each, and after every reconnect. The browser resumes
 * with `Last-Event-ID`. Nothing leaves the list before the gateway confirmed it.
 */
export function useLiveCalls(): Live {
  const client = useQueryClient();
  const [state, setState] = useState<Live>('connecting');
  useEffect(() => {
    const source = new EventSource('/v1/events');
    const refresh = () => {
      void client.invalidateQueries({ queryKey: ['calls'] });
    };
    source.onopen = () => {
      setState('live');
      refresh();
    };
    source.onerror = () => setState('offline');
    for (const event of EVENTS) source.addEventListener(event, refresh);
    return () => source.close();
  }, [client]);
  return state;
}
