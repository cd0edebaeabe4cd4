import { ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import type { FastifyReply } from 'fastify';

/** HTTP status of each code that the interface answers with. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  [ERROR_CODES.unauthenticated]: 401,
  [ERROR_CODES.forbidden]: 403,
  [ERROR_CODES.signInAgain]: 403,
  [ERROR_CODES.signInFailed]: 401,
  [ERROR_CODES.passkeyRefused]: 422,
  [ERROR_CODES.keysRefused]: 422,
  [ERROR_CODES.identityProvider]: 503,
  [ERROR_CODES.changedMeanwhile]: 409,
  [ERROR_CODES.notFound]: 404,
  [ERROR_CODES.invalidRequest]: 400,
  [ERROR_CODES.alreadyDecided]: 409,
  [ERROR_CODES.staleView]: 409,
  [ERROR_CODES.notOffered]: 409,
  [ERROR_CODES.frozen]: 409,
  [ERROR_CODES.held]: 409,
  [ERROR_CODES.policyRefused]: 400,
  [ERROR_CODES.rateLimited]: 429,
  [ERROR_CODES.auditUnavailable]: 503,
  [ERROR_CODES.clockOff]: 503,
  [ERROR_CODES.auditBusy]: 503,
};

/** Answers with Problem Details (RFC 9457). */
export function sendProblem(
  reply: FastifyReply,
  problem: { code: ErrorCode; message: string; winner?: string },
): FastifyReply {
  const status = STATUS[problem.code] ?? 500;
  return reply
    .code(status)
    .type('application/problem+json')
    .send({
      type: `urn:${problem.code}`,
      title: problem.code.split('.').at(-1)?.replaceAll('_', ' '),
      status,
      detail: problem.message,
      code: problem.code,
      ...(problem.winner === undefined ? {} : { winner: problem.winner }),
    });
}
