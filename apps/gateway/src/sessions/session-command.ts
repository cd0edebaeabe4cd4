import { isSubjectToken } from '@countersign/kernel';
import { ERROR_CODES, type SessionCommand, sealTo } from '@countersign/protocol';
import { tellAgent } from '../calls/announce.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import type { Sender } from '../record/members.ts';
import { askUpdate } from '../requests/ask-person.ts';
import { issueChildToken } from './child-token.ts';
import { closeSession } from './close-session.ts';

/** Carries out what an agent asks for its own open session, and answers with the request's id. */
export async function takeSessionCommand(gateway: Gateway, member: Sender, command: SessionCommand): Promise<void> {
  const { sessionId, requestId, action } = command;
  if (!isSubjectToken(sessionId) || !isSubjectToken(requestId)) return;
  const answer = (facts: object) =>
    tellAgent(gateway, member.id, { type: 'session.answer', sessionId, requestId, ...facts });
  const found = await gateway.sessions.find(sessionId);
  if (found?.session.agent !== member.id || found.session.state !== 'open')
    return answer({ code: ERROR_CODES.unknownSession, reason: 'session is not open for this agent' });
  if (action === 'close') {
    await closeSession(gateway, sessionId, {
      name: member.id,
      reason: maskText(command.reason) || 'closed by its agent',
    });
    return answer({});
  }
  if (action === 'permission_update') {
    const chain = await gateway.sessions.chain(sessionId);
    if (chain?.bounded.state === 'open') return askUpdate(gateway, member, chain, command);
    return answer({ code: ERROR_CODES.unknownSession, reason: 'a session above this one is not open' });
  }
  if (action !== 'child_token')
    return answer({
      code: ERROR_CODES.unimplemented,
      reason: `session command \`${action.slice(0, 40)}\` is not built`,
    });
  const token = await issueChildToken(gateway, found);
  if (token === undefined)
    return answer({ code: ERROR_CODES.childToken, reason: 'no token was issued; send it again' });
  answer({ sealedResult: await sealTo(member.seal_key, new TextEncoder().encode(token), requestId) });
}
