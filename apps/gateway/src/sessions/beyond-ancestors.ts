import { ERROR_CODES } from '@countersign/protocol';
import type { CallRefusal } from '../calls/parse-call.ts';
import type { Gateway } from '../context.ts';
import type { SessionChain } from '../record/sessions.ts';
import { rootsOf } from './rooted.ts';

const isWithin = (project: string, root: string): boolean => project === root || project.startsWith(`${root}/`);

/** What a session's child may not reach because an ancestor's agent may not; undefined when all of them may. */
export async function beyondAncestors(
  gateway: Gateway,
  { session, ancestors }: Pick<SessionChain, 'session' | 'ancestors'>,
  tool?: string,
): Promise<CallRefusal | undefined> {
  const refuse = (id: string, what: string) => ({
    code: ERROR_CODES.ceiling,
    message: `${what} is beyond session \`${id}\`, which this one descends from`,
  });
  for (const { session: ancestor } of ancestors) {
    const member = await gateway.members.find('agent', ancestor.agent);
    if (!member || ancestor.principal !== session.principal) return refuse(ancestor.id, 'this person');
    if (tool !== undefined && !member.tools.includes(tool)) return refuse(ancestor.id, `tool \`${tool}\``);
    if (!member.hosts.includes(session.host)) return refuse(ancestor.id, `host \`${session.host}\``);
    if (!rootsOf(gateway, member, session.host).some((root) => isWithin(session.project, root)))
      return refuse(ancestor.id, 'this project');
  }
  return undefined;
}
