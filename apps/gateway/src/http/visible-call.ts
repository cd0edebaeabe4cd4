import { type CallRecord, ERROR_CODES } from '@countersign/protocol';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { principalOf } from './access-hook.ts';

/** Parameters of a route about one call. */
export const callIdSchema = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
export const NO_CALL = { code: ERROR_CODES.notFound, message: 'no such call' };

/** The call that a request's address names; undefined, as if there were none, when the caller may not know of it. */
export const visibleCall = (gateway: Gateway, request: FastifyRequest): Promise<CallRecord | undefined> =>
  visibleCallById(gateway, request, (request.params as { id: string }).id);

/** A call by its id; undefined, as if there were none, when the caller may not know of it. */
export async function visibleCallById(
  gateway: Gateway,
  request: FastifyRequest,
  id: string,
): Promise<CallRecord | undefined> {
  const record = await gateway.audit.getCall('', id);
  return record && visible(principalOf(request), record, gateway.queues) ? record : undefined;
}
