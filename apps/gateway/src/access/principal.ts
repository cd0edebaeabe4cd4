import { z } from 'zod';

/** Roles of people and programs at the HTTP interface. An agent has none of them, so an agent can never decide. */
export const ROLES = ['viewer', 'approver', 'operator', 'admin', 'auditor'] as const;
export type Role = (typeof ROLES)[number];

/** What an API token may be used for, within the roles of its person. */
export const SCOPES = ['read', 'decide', 'operate', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

/** Roles that read every queue. */
const READS_ALL: readonly Role[] = ['operator', 'admin', 'auditor'];

/** Name of a person, a group or a queue: printable, without blanks at its ends. */
export const nameSchema = z.string().regex(/^[\w@.:+=/-][\w@.:+=/ -]{0,126}[\w@.:+=/-]$|^[\w@.:+=/-]$/);
export const groupsSchema = z.array(nameSchema).max(200);
export const rolesSchema = z
  .array(z.enum(ROLES))
  .min(1)
  .max(ROLES.length)
  .refine((roles) => new Set(roles).size === roles.length, 'names each role once');

/** Who asks. */
export type Principal = {
  /** Subject in the directory: the same for every channel of one person. */
  readonly name: string;
  readonly roles: readonly Role[];
  /** Groups, which queues name as their approvers and readers. */
  readonly groups: readonly string[];
  /** Groups that others have lent: they show queues, and are judged anew for each answer. */
  readonly lent?: readonly string[];
  /** How the request proved who sends it. */
  readonly method: 'token' | 'link' | 'oidc';
  readonly scopes: readonly Scope[];
  /** When a person last proved who he is, milliseconds since the Unix epoch; a token never does. */
  readonly provenMs?: number;
  readonly csrf?: string;
};

/** Groups of one queue: who may read it and who may decide in it. */
export type QueueGroups = { readonly readers: readonly string[]; readonly approvers: readonly string[] };
/** Groups by queue. A queue that is not listed is open to every reader and approver. */
export type Queues = { readonly [queue: string]: QueueGroups };

export const hasRole = (principal: Principal, roles: readonly Role[]): boolean =>
  principal.roles.some((role) => roles.includes(role));

/** True for a principal that sees every queue. */
export const seesAll = (principal: Principal): boolean => hasRole(principal, READS_ALL);

/**
 * True when `principal` may know that `call` exists. The one rule behind list, event stream and its resume, search, counts,
 * export and notifications.
 */
export function visible(principal: Principal, call: { readonly queue: string }, queues: Queues): boolean {
  if (seesAll(principal)) return true;
  if (principal.roles.length === 0) return false;
  const groups = Object.hasOwn(queues, call.queue) ? queues[call.queue] : undefined;
  if (!groups) return true;
  return [...principal.groups, ...(principal.lent ?? [])].some(
    (group) => groups.readers.includes(group) || groups.approvers.includes(group),
  );
}
