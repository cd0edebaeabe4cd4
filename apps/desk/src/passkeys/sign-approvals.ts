import { type Answer, type CallDetail, decideCall } from '../api/calls.ts';
import type { Me } from '../api/me.ts';
import { type Assertion, fetchChallenge } from '../api/passkeys.ts';
import { approvesWhatIsShown } from './check-challenge.ts';

type Provable = Pick<CallDetail, 'callId' | 'viewDigest' | 'passkey'>;

/**
 * Asks the person's passkey once for all of these calls that need one; every call gets an answer of its own. Rejects when
 * the person cancels, and when the challenge is about anything else than what is shown.
 */
export async function signApprovals(calls: readonly Provable[], me: Me): Promise<ReadonlyMap<string, Assertion>> {
  const needed = calls.filter(({ passkey }) => passkey);
  if (needed.length === 0) return new Map();
  const asked = await fetchChallenge(
    needed.map(({ callId }) => callId),
    me.csrf,
  );
  if (!approvesWhatIsShown(asked, needed, me.name)) throw new Error('passkey.mismatch');
  if (asked.credentialIds.length === 0) throw new Error('passkey.none');
  const { startAuthentication } = await import('@simplewebauthn/browser');
  const { rawId, response } = await startAuthentication({
    optionsJSON: {
      challenge: asked.challenge,
      rpId: asked.rpId,
      userVerification: 'required',
      allowCredentials: asked.credentialIds.map((id) => ({ type: 'public-key', id })),
    },
  });
  const { clientDataJSON, authenticatorData, signature } = response;
  const answer = { credentialId: rawId, clientDataJSON, authenticatorData, signature };
  return new Map(asked.calls.map(({ callId, ...part }) => [callId, { ...part, ...answer }]));
}

/** Answers a call, with the person's passkey where an approval needs one. */
export async function decideProven(call: Provable, answer: Answer, me: Me): Promise<{ state: string }> {
  const signed = answer.answer === 'approve' ? await signApprovals([call], me) : new Map();
  return decideCall(call, answer, me.csrf, signed.get(call.callId));
}
