import * as z from 'zod/mini';
import { request } from './request.ts';

const meSchema = z.object({
  name: z.string(),
  role: z.optional(z.string()),
  roles: z.optional(z.array(z.string())),
  groups: z.optional(z.array(z.string())),
  csrf: z.optional(z.string()),
});

/** Who is signed in. */
export type Me = {
  readonly name: string;
  readonly roles: readonly string[];
  readonly groups: readonly string[];
  readonly csrf: string | undefined;
};

/** Rejects with status 401 when nobody is signed in. */
export async function fetchMe(): Promise<Me> {
  const { name, role, roles, groups, csrf } = await request('/v1/me', meSchema);
  return { name, roles: roles ?? (role === undefined ? [] : [role]), groups: groups ?? [], csrf };
}

const DECIDERS = ['approver', 'operator', 'admin'];

/** True when the person may answer calls at all; the gateway decides for each call. */
export const mayDecide = (me: Me): boolean => me.roles.some((role) => DECIDERS.includes(role));

/** True for operators and admins. */
export const mayOperate = (me: Me): boolean => me.roles.some((role) => role === 'operator' || role === 'admin');

const READERS = ['auditor', 'operator', 'admin'];

/** True when the person may ask the record; the gateway also refuses people who do not see every queue. */
export const seesRecord = (me: Me): boolean => me.roles.some((role) => READERS.includes(role));
