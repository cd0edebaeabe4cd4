import { ERROR_CODES } from '@countersign/protocol';
import type { CallRefusal } from '../calls/parse-call.ts';
import type { Gateway } from '../context.ts';
import type { Member } from '../record/members.ts';

/** Folders of a host in which an agent may work: those of its enrolment, and those that an operator trusted since. */
export const rootsOf = (gateway: Gateway, member: Member, host: string): readonly string[] => [
  ...(member.roots[host] ?? []),
  ...gateway.layers.folders(member.id, host),
];

/** Why an agent may not work in a folder; undefined when it may. Asked again for every call, so that a revocation holds at once. */
export function outsideRoots(gateway: Gateway, member: Member, host: string, project: string): CallRefusal | undefined {
  if (rootsOf(gateway, member, host).includes(project)) return undefined;
  const message = `project \`${project.slice(0, 200)}\` is not a root of this agent; have an operator trust the folder`;
  return { code: ERROR_CODES.unknownRoot, message };
}
