import { useQuery } from '@tanstack/react-query';
import { fetchCallContext } from '../api/call-context.ts';
import type { CallDetail } from '../api/calls.ts';

/** What surrounds a call, read once for all parts of the review. */
export const useCallContext = (call: Pick<CallDetail, 'callId' | 'viewDigest'>) =>
  useQuery({
    queryKey: ['call', call.callId, 'context', call.viewDigest],
    queryFn: () => fetchCallContext(call.callId),
  });
