import * as z from 'zod/mini';
import { request } from './request.ts';

/** Ways to sign in that this gateway offers. */
export const fetchSignIn = (): Promise<{ oidc: boolean; links: boolean }> =>
  request('/v1/sign-in', z.object({ oidc: z.boolean(), links: z.boolean() }));
