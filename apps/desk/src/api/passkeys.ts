import * as z from 'zod/mini';
import { change, request } from './request.ts';

const passkeySchema = z.object({
  person: z.string(),
  credential_id: z.string(),
  label: z.string(),
  added_ms: z.number(),
  listed: z.boolean(),
  until_ms: z.optional(z.number()),
});
/**
 * A passkey of a person. `listed`: the organisation root has signed a list with it, so that it decides; `until_ms`: another one
 * takes its place then.
 */
export type Passkey = z.infer<typeof passkeySchema>;

/** The signed-in person's passkeys; those of everybody for admins and auditors. */
export const fetchPasskeys = async (): Promise<readonly Passkey[]> =>
  (await request('/v1/passkeys', z.object({ passkeys: z.array(passkeySchema) }))).passkeys;

/** What the browser needs to make a passkey, in the form of WebAuthn's JSON. */
export const passkeyOptions = (csrf: string | undefined): Promise<unknown> =>
  change('POST', '/v1/passkeys/options', z.unknown(), { csrf });

/** Enrols what the browser made. */
export const addPasskey = (label: string, response: object, csrf: string | undefined): Promise<unknown> =>
  change('POST', '/v1/passkeys', z.unknown(), { csrf, body: { label, response } });

export const removePasskey = (credential: string, csrf: string | undefined): Promise<unknown> =>
  change('DELETE', `/v1/passkeys/${encodeURIComponent(credential)}`, z.unknown(), { csrf });

const asked = { challenge: z.string(), rpId: z.string(), credentialIds: z.array(z.string()) };
const part = { nonce: z.string(), statement: z.string() };
const treeSchema = z.object({ index: z.number(), size: z.number(), path: z.array(z.string()), root: z.string() });
const challengeSchema = z.object({ ...asked, ...part });
const challengesSchema = z.object({
  ...asked,
  calls: z.array(z.object({ callId: z.string(), ...part, tree: treeSchema })),
});

/** One call's part of a challenge; `tree` where one signature approves several calls. */
export type ChallengePart = {
  readonly callId: string;
  readonly nonce: string;
  readonly statement: string;
  readonly tree?: z.infer<typeof treeSchema>;
};
/** What the passkey signs. Bytes are base64url. */
export type Challenge = {
  readonly challenge: string;
  readonly rpId: string;
  readonly credentialIds: readonly string[];
  readonly calls: readonly ChallengePart[];
};

/** Asks what the person's passkey has to sign to approve these calls. */
export async function fetchChallenge(callIds: readonly string[], csrf: string | undefined): Promise<Challenge> {
  const [callId = '', ...others] = callIds;
  if (others.length > 0) return change('POST', '/v1/challenges', challengesSchema, { csrf, body: { calls: callIds } });
  const address = `/v1/calls/${encodeURIComponent(callId)}/challenge`;
  const { nonce, statement, ...rest } = await change('POST', address, challengeSchema, { csrf });
  return { ...rest, calls: [{ callId, nonce, statement }] };
}

/** The passkey's answer for one call. */
export type Assertion = Omit<ChallengePart, 'callId'> & {
  readonly credentialId: string;
  readonly clientDataJSON: string;
  readonly authenticatorData: string;
  readonly signature: string;
};
