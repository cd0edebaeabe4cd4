import type { CallRecord } from '@countersign/protocol';
import type { FastifyRequest } from 'fastify';
import { visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { principalOf } from './access-hook.ts';

/** The call of a request; undefined, as if there were none, when the caller may not know of it. */
export async function visibleCall(gateway: Gateway, request: FastifyRequest): Promise<CallRecord | undefined> {
  const record = await gateway.audit.getCall('', (request.params as { id: string }).id);
  return record && visible(principalOf(request), record, gateway.queues) ? record : undefined;
}
