import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { type AuditEntry, leafHash, verifyInclusion } from '@countersign/merkle';
import {
  type ApprovalStatement,
  type ApproverList,
  type IsIncluded,
  PasskeyAssertion,
  passkeyJwkSchema,
  verifyAssertion,
} from '@countersign/protocol';
import { z } from 'zod';
import { sha256 } from './log-crypto.ts';

/** A gateway looks at the clock a moment before it writes the entry. */
const MOMENT_MS = 10_000;

const addedSchema = z.looseObject({ person: z.string(), credential: z.string(), key: passkeyJwkSchema });
const removedSchema = z.looseObject({ credential: z.string() });
const publishedSchema = z.looseObject({
  rp_id: z.string(),
  origins: z.array(z.string()),
  credentials: z.array(z.string()).optional(),
  replaced: z.array(z.looseObject({ credential: z.string(), until_ms: z.number() })).optional(),
});

type Enrolled = ApproverList['approvers'][number] & { removed?: true };
type SignatureProblem = { readonly code: 'approver_signature'; readonly message: string };

const isIncluded: IsIncluded = (leaf, { index, size, path, root }) =>
  verifyInclusion(sha256, { leaf: leafHash(sha256, leaf), index, size, proof: path, root });

/** Short name of a passkey in entries: the first 16 bytes of the SHA-256 of its id, base64url. */
export const passkeyName = (credentialId: string): string =>
  createHash('sha256').update(credentialId).digest().subarray(0, 16).toString('base64url');

const problem = (message: string): SignatureProblem => ({ code: 'approver_signature', message });

/**
 * Verifies the passkey signatures of approvals while a log is read in order: each against the passkeys that were enrolled,
 * listed and not removed at its entry, and against the call and the view that the entries around it name.
 */
export class ApproverSignatures {
  /** Approvals whose signature was verified. */
  verified = 0;
  readonly #enrolled = new Map<string, Enrolled>();
  /** Commitments of calls that have not ended. */
  readonly #open = new Map<string, unknown>();
  /** True for a log whose first entries were dropped: who had enrolled then is not known any more. */
  #cut: boolean | undefined;
  #list: z.infer<typeof publishedSchema> | undefined;

  /** Takes the next entry and says what is wrong with the signature in it. */
  readonly take = (entry: AuditEntry): readonly SignatureProblem[] => {
    this.#cut ??= entry.index > 0;
    if (entry.type === 'call.received') this.#open.set(entry.call ?? '', entry.tool?.args_commitment);
    else if (entry.type === 'call.closed') this.#open.delete(entry.call ?? '');
    else if (entry.type === 'admin.changed') this.#follow(entry.detail ?? {});
    else if (entry.type === 'approval.answered' && entry.approver?.assertion !== undefined) return this.#check(entry);
    return [];
  };

  #follow(detail: Readonly<Record<string, unknown>>): void {
    const { what } = detail;
    if (what === 'passkey.added') {
      const { data } = addedSchema.safeParse(detail);
      if (data)
        this.#enrolled.set(data.credential, { person: data.person, credentialId: data.credential, key: data.key });
    } else if (what === 'passkey.removed') {
      const known = this.#enrolled.get(removedSchema.safeParse(detail).data?.credential ?? '');
      if (known) known.removed = true;
    } else if (what === 'approver_list.published') {
      this.#list = publishedSchema.safeParse(detail).data;
      for (const { credential, until_ms } of this.#list?.replaced ?? []) {
        const known = this.#enrolled.get(credential);
        if (known) known.untilMs = until_ms;
      }
    }
  }

  #check(entry: AuditEntry): SignatureProblem[] {
    if (this.#cut && !this.#isKnown(entry)) return [];
    const message = this.#wrong(entry);
    if (message === undefined) this.verified += 1;
    return message === undefined ? [] : [problem(message)];
  }

  /** True when the log still holds what the signature is to be compared with. */
  #isKnown(entry: AuditEntry): boolean {
    const assertion = readAssertion(entry.approver?.assertion);
    const credential = assertion && Buffer.from(assertion.credentialId).toString('base64url');
    return this.#list !== undefined && this.#enrolled.has(credential ?? '') && this.#open.has(entry.call ?? '');
  }

  #wrong(entry: AuditEntry): string | undefined {
    const assertion = readAssertion(entry.approver?.assertion);
    if (!assertion) return 'the signature cannot be read';
    if (!this.#list) return 'signed before a list of approvers was in force';
    const credential = Buffer.from(assertion.credentialId).toString('base64url');
    const known = this.#enrolled.get(credential);
    if (!known || known.removed) return 'the passkey was not enrolled at that time';
    if (this.#list.credentials && !this.#list.credentials.includes(passkeyName(credential)))
      return 'the passkey was not on the list of approvers at that time';
    const { removed: _, ...approver } = known;
    const list = { version: 1, rpId: this.#list.rp_id, origins: this.#list.origins, approvers: [approver] };
    const signed = verifyAssertion(assertion, list, { isIncluded, nowMs: entry.emitted_ms - MOMENT_MS });
    return signed.ok ? this.#otherThing(entry, signed.value) : signed.error.message;
  }

  /** What the person signed is what the entries say was approved. */
  #otherThing(entry: AuditEntry, statement: ApprovalStatement): string | undefined {
    if (statement.approver !== entry.approver?.subject) return 'signed by another person than the entry names';
    if (statement.view_digest !== entry.approver?.shown) return 'another view was signed than the entry names';
    if (statement.call_digest !== this.#open.get(entry.call ?? '')) return 'another call was signed than was received';
    if (entry.emitted_ms - MOMENT_MS > statement.expiry_ms) return 'the signature had expired when it was recorded';
    return undefined;
  }
}

function readAssertion(text: unknown): PasskeyAssertion | undefined {
  try {
    return PasskeyAssertion.decode(Buffer.from(z.base64().max(65_536).parse(text), 'base64'));
  } catch {
    return undefined;
  }
}
