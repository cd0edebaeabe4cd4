import { createHash } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import { inclusionProof, leafHash, rootOfLeaves, verifyInclusion } from '@countersign/merkle';
import {
  type ApprovalStatement,
  type ApprovalTree,
  approvalChallenge,
  approvalTreeChallenge,
  type CallRecord,
  ERROR_CODES,
  type IsIncluded,
  type PasskeyAssertion,
  statementBytes,
  verifyAssertion,
} from '@countersign/protocol';
import type { Passkeys } from '../access/passkeys.ts';
import { readView, viewTermsDigest } from '../calls/view.ts';
import type { AnswerProblem } from './governance.ts';

/** An answer must follow its challenge within this time. */
const CHALLENGE_MS = 5 * 60_000;
/** An order is handed out at the call's deadline at the latest and may start for this long after it. */
const ORDER_MS = 120_000;

export type Challenge = {
  readonly statement: Uint8Array;
  readonly nonce: Uint8Array;
  readonly challenge: Uint8Array;
};

/** What one signature over several calls needs: the challenge, and each call's part with its place in the tree. */
export type TreeChallenge = {
  readonly challenge: Uint8Array;
  readonly calls: readonly (Challenge & { readonly callId: string; readonly tree: ApprovalTree })[];
};

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

const isIncluded: IsIncluded = (leaf, { index, size, path, root }) =>
  verifyInclusion(sha256, { leaf: leafHash(sha256, leaf), index, size, proof: path, root });

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const refuse = (message: string): Result<never, AnswerProblem> => err({ code: ERROR_CODES.passkeyRefused, message });

/** What a person would approve of a waiting call; undefined when the call has no view. */
function statementOf(
  call: CallRecord,
  approver: string,
  at: { policyDigest: string; notBeforeMs: number },
): ApprovalStatement | undefined {
  const view = readView(call.view);
  return (
    view && {
      answer: 'approve',
      approver,
      call_digest: hex(call.callDigest),
      expiry_ms: Number(call.deadlineMs) + ORDER_MS,
      hosts: [call.host],
      not_before_ms: at.notBeforeMs,
      policy_digest: at.policyDigest,
      profile: view.profile,
      queue: call.queue,
      scope: view.project,
      terms_digest: hex(viewTermsDigest(view)),
      view_digest: hex(call.viewDigest),
    }
  );
}

/** Approvals signed with passkeys, for queues that ask for them. */
export class PasskeyApproval {
  readonly #passkeys: Passkeys;
  readonly #policyDigest: () => string;
  readonly #now: () => number;

  constructor(options: { passkeys: Passkeys; policyDigest: () => string; now: () => number }) {
    this.#passkeys = options.passkeys;
    this.#policyDigest = options.policyDigest;
    this.#now = options.now;
  }

  /** What the passkey of `approver` has to sign; undefined when the call has no view. */
  challenge(call: CallRecord, approver: string): Challenge | undefined {
    const statement = statementOf(call, approver, { policyDigest: this.#policyDigest(), notBeforeMs: this.#now() });
    return statement && this.#challengeOf(statementBytes(statement));
  }

  /** One challenge for several calls, each of which stays a decision of its own; undefined when one of them has no view. */
  challengeAll(calls: readonly CallRecord[], approver: string): TreeChallenge | undefined {
    const parts = calls.flatMap((call) => {
      const challenge = this.challenge(call, approver);
      return challenge ? [{ callId: call.callId, ...challenge }] : [];
    });
    if (parts.length < calls.length) return undefined;
    const leaves = parts.map(({ challenge }) => leafHash(sha256, challenge));
    const root = rootOfLeaves(sha256, leaves);
    const treeAt = (index: number) => ({
      ...{ index, size: leaves.length, root },
      path: [...inclusionProof(sha256, leaves, index, leaves.length)],
    });
    return {
      challenge: approvalTreeChallenge(root),
      calls: parts.map((part, index) => ({ ...part, tree: treeAt(index) })),
    };
  }

  /**
   * Why an assertion does not approve this call for this person. SECURITY: the statement is made anew from the call and must
   * be the same to the byte, and its nonce must be ours; the runner verifies all of it again on its own.
   */
  async verify(
    call: CallRecord,
    approver: string,
    assertion: PasskeyAssertion | undefined,
  ): Promise<Result<undefined, AnswerProblem>> {
    if (!assertion) return refuse('this queue takes approvals with a passkey only; ask for a challenge');
    const published = await this.#passkeys.published();
    if (!published) return refuse('no list of approvers was signed and published');
    const verified = verifyAssertion(assertion, published.list, { isIncluded, nowMs: this.#now() });
    if (!verified.ok) return refuse(verified.error.message);
    if (await this.#passkeys.isEnded(Buffer.from(assertion.credentialId).toString('base64url')))
      return refuse('this passkey was removed');
    const { not_before_ms: notBeforeMs } = verified.value;
    const ageMs = this.#now() - notBeforeMs;
    if (ageMs < 0 || ageMs > CHALLENGE_MS) return refuse('the challenge is too old; ask for a new one');
    const expected = statementOf(call, approver, { policyDigest: this.#policyDigest(), notBeforeMs });
    const again = expected && this.#challengeOf(statementBytes(expected));
    const same =
      again &&
      Buffer.compare(again.statement, assertion.statement) === 0 &&
      Buffer.compare(again.nonce, assertion.nonce) === 0;
    return same ? ok(undefined) : refuse('the passkey approved something else; read the call again');
  }

  #challengeOf(statement: Uint8Array): Challenge {
    const nonce = this.#passkeys.nonce(createHash('sha256').update('approve ').update(statement).digest());
    return { statement, nonce, challenge: approvalChallenge(nonce, statement) };
  }
}
