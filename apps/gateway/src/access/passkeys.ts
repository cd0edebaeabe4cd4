import { createHash, createHmac, createPublicKey } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import {
  type ApproverList,
  ERROR_CODES,
  endsProblem,
  type Identity,
  openApproverList,
  passkeyJwkSchema,
} from '@countersign/protocol';
import {
  generateRegistrationOptions,
  type PublicKeyCredentialCreationOptionsJSON,
  type RegistrationResponseJSON,
  verifyRegistrationResponse,
} from '@simplewebauthn/server';
import { cose, decodeCredentialPublicKey } from '@simplewebauthn/server/helpers';
import { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';
import { recordAct } from './admin-log.ts';
import type { AccessRefusal } from './authenticator.ts';
import { RecordView } from './record-view.ts';

const PASSKEY = 'passkey';
const LIST = 'approver_list';
const CURRENT = 'current';
const ROUND_MS = 60_000;
/** A registration is finished within this many minutes. */
const ROUNDS = 5;

export const passkeySettingsSchema = z.strictObject({
  /** Domain of the passkeys. */
  rpId: z.string().min(1).max(253),
  /** Addresses at which browsers reach the desk. */
  origins: z.array(z.url()).min(1).max(16),
});
type Settings = z.infer<typeof passkeySettingsSchema>;

const passkeySchema = z.object({
  person: z.string(),
  credential_id: z.base64url(),
  key: passkeyJwkSchema,
  label: z.string(),
  added_ms: z.number(),
  removed_ms: z.number().nullable(),
  /** End of the overlap after a rotation, as a signed list said it. */
  until_ms: z.number().optional(),
});
export type Passkey = z.infer<typeof passkeySchema>;

const listSchema = z.object({ version: z.number(), signed: z.base64() });

const refuse = (message: string): Result<never, AccessRefusal> => err({ code: ERROR_CODES.passkeyRefused, message });
/** A longer list does not fit into its entry with the names of its passkeys. */
const MAX_NAMED = 800;
/** Short name of a passkey in entries: the first 16 bytes of the SHA-256 of its id, base64url. */
const nameOf = (credentialId: string): string =>
  createHash('sha256').update(credentialId).digest().subarray(0, 16).toString('base64url');
const keyOf = (credentialId: string): string => createHash('sha256').update(credentialId).digest('hex');

/** Passkeys of people, and the list of them that the organisation root signed. Both are kept in the record. */
export class Passkeys {
  readonly settings: Settings | undefined;
  readonly #audit: AuditLog;
  readonly #rootKey: string;
  readonly #now: () => number;
  readonly #secret: Buffer;
  readonly #known: RecordView<Passkey>;
  readonly #lists: RecordView<z.infer<typeof listSchema>>;

  /** `control`: the key that every gateway of the installation holds; challenges are made from it, so that any of them takes the answer. */
  constructor(options: {
    audit: AuditLog;
    control: Identity;
    rootKey: string;
    settings: Settings | undefined;
    now: () => number;
  }) {
    this.settings = options.settings;
    this.#audit = options.audit;
    this.#rootKey = options.rootKey;
    this.#now = options.now;
    this.#secret = createHmac('sha256', options.control.seed).update('countersign/challenge/v1').digest();
    this.#known = new RecordView({ ...options, kind: PASSKEY, schema: passkeySchema });
    this.#lists = new RecordView({ ...options, kind: LIST, schema: listSchema });
  }

  /** A server nonce for `about`, the same at every gateway; nobody else can make it. */
  nonce(about: Uint8Array | string): Uint8Array {
    return new Uint8Array(createHmac('sha256', this.#secret).update(about).digest());
  }

  /** Passkeys that were neither removed nor replaced by others whose overlap has ended. */
  async list(person?: string): Promise<Passkey[]> {
    const all = [...(await this.#known.all()).values()].map(({ value }) => value);
    return all.filter((key) => !this.#hasEnded(key) && (person === undefined || key.person === person));
  }

  /** True for a passkey that was removed or replaced, whether or not a signed list still names it. */
  async isEnded(credentialId: string): Promise<boolean> {
    const known = await this.#known.find(keyOf(credentialId));
    return known !== undefined && this.#hasEnded(known.value);
  }

  #hasEnded({ removed_ms, until_ms }: Passkey): boolean {
    return removed_ms !== null || (until_ms !== undefined && this.#now() >= until_ms);
  }

  /** What a browser needs to make a passkey for a person; undefined when passkeys are not configured. */
  async registrationOptions(person: string): Promise<PublicKeyCredentialCreationOptionsJSON | undefined> {
    if (!this.settings) return undefined;
    const known = await this.list(person);
    return generateRegistrationOptions({
      rpName: 'Countersign',
      rpID: this.settings.rpId,
      userName: person,
      userID: new TextEncoder().encode(createHash('sha256').update(person).digest('hex').slice(0, 32)),
      challenge: Buffer.from(this.#registrationChallenge(person, 0)),
      attestationType: 'none',
      excludeCredentials: known.map(({ credential_id }) => ({ id: credential_id })),
      authenticatorSelection: { userVerification: 'required', residentKey: 'preferred' },
      supportedAlgorithmIDs: [-7, -8, -257],
    });
  }

  /** Enrols a passkey of a person from the browser's answer. It decides only after the root has signed a list with it. */
  async register(
    person: string,
    label: string,
    response: RegistrationResponseJSON,
  ): Promise<Result<Passkey, AccessRefusal>> {
    if (!this.settings) return refuse('passkeys are not configured here');
    const expected = Array.from({ length: ROUNDS }, (_, ago) =>
      Buffer.from(this.#registrationChallenge(person, ago)).toString('base64url'),
    );
    const verified = await verifyRegistrationResponse({
      response,
      expectedChallenge: (challenge) => expected.includes(challenge),
      expectedOrigin: this.settings.origins,
      expectedRPID: this.settings.rpId,
      requireUserVerification: true,
    }).catch(() => undefined);
    if (!verified?.verified) return refuse("the browser's answer does not verify; begin again");
    const { id, publicKey } = verified.registrationInfo.credential;
    const key = jwkOf(publicKey);
    if (!key) return refuse('this kind of key is not supported; use ES256, EdDSA or RS256');
    const nowMs = this.#now();
    const value: Passkey = { person, credential_id: id, key, label, added_ms: nowMs, removed_ms: null };
    const detail = { person, credential: id, label, key };
    await recordAct(this.#audit, { what: 'passkey.added', by: person, detail }, nowMs, [
      { kind: PASSKEY, key: keyOf(id), expectedVersion: 0n, value },
    ]);
    this.#known.expire();
    return ok(value);
  }

  /** Removes a passkey. False when `person` has none with this id. A list without it has to be signed and published. */
  async remove(credentialId: string, by: string, person?: string): Promise<boolean> {
    this.#known.expire();
    const known = await this.#known.find(keyOf(credentialId));
    if (!known || (person !== undefined && known.value.person !== person)) return false;
    const nowMs = this.#now();
    const detail = { person: known.value.person, credential: credentialId };
    await recordAct(this.#audit, { what: 'passkey.removed', by, detail }, nowMs, [
      {
        kind: PASSKEY,
        key: keyOf(credentialId),
        expectedVersion: known.version,
        value: { ...known.value, removed_ms: nowMs },
      },
    ]);
    this.#known.expire();
    return true;
  }

  /** The list in force with the bytes that the root signed; undefined when none was published. */
  async published(): Promise<{ list: ApproverList; signed: Uint8Array } | undefined> {
    const known = await this.#lists.find(CURRENT);
    if (!known) return undefined;
    const signed = new Uint8Array(Buffer.from(known.value.signed, 'base64'));
    const opened = openApproverList(signed, this.#rootKey);
    return opened.ok ? { list: opened.value, signed } : undefined;
  }

  /** The list as it would be with the passkeys of now, for the root to sign. */
  async draft(): Promise<ApproverList | undefined> {
    if (!this.settings) return undefined;
    const version = ((await this.published())?.list.version ?? 0) + 1;
    const approvers = (await this.list()).map(({ person, credential_id, key, until_ms }) => ({
      ...{ person, credentialId: credential_id, key },
      ...(until_ms === undefined ? {} : { untilMs: until_ms }),
    }));
    return { version, ...this.settings, approvers };
  }

  /**
   * Puts a signed list in force. Refused unless the root signed it, its version is higher, and the overlaps that it gives have
   * begun and not ended. A passkey that it gives an end never gets another one.
   */
  async publish(signed: Uint8Array, by: string): Promise<Result<ApproverList, AccessRefusal>> {
    const opened = openApproverList(signed, this.#rootKey);
    if (!opened.ok) return refuse(`the list is refused: ${opened.error.message}`);
    this.#lists.expire();
    const known = await this.#lists.find(CURRENT);
    const { version, approvers } = opened.value;
    if (version <= (known?.value.version ?? 0)) return refuse('a list never goes back; sign a higher version');
    const before = (await this.published())?.list.approvers ?? [];
    const ends = new Map(before.map(({ credentialId, untilMs }) => [credentialId, untilMs]));
    const lines = approvers.map(({ credentialId, untilMs }) => ({ key: credentialId, untilMs }));
    const problem = endsProblem(ends, lines, this.#now());
    if (problem !== undefined) return refuse(problem);
    const value = { version, signed: Buffer.from(signed).toString('base64') };
    const replaced = await this.#replaced(approvers);
    const sha256 = createHash('sha256').update(signed).digest('hex');
    const detail = {
      ...{ version, approvers: approvers.length, sha256, replaced: replaced.map(({ line }) => line) },
      ...{ rp_id: opened.value.rpId, origins: opened.value.origins },
      ...(approvers.length > MAX_NAMED
        ? {}
        : { credentials: approvers.map(({ credentialId }) => nameOf(credentialId)) }),
    };
    await recordAct(this.#audit, { what: 'approver_list.published', by, detail }, this.#now(), [
      { kind: LIST, key: CURRENT, expectedVersion: known?.version ?? 0n, value },
      ...replaced.map(({ change }) => change),
    ]);
    this.#lists.expire();
    this.#known.expire();
    return ok(opened.value);
  }

  /** Passkeys to which a list gives an end that the record does not know yet. */
  async #replaced(approvers: ApproverList['approvers']) {
    this.#known.expire();
    const known = await this.#known.all();
    return approvers.flatMap(({ person, credentialId, untilMs }) => {
      const found = known.get(keyOf(credentialId));
      if (untilMs === undefined || !found || found.value.until_ms !== undefined) return [];
      const value: Passkey = { ...found.value, until_ms: untilMs };
      const change = { kind: PASSKEY, key: keyOf(credentialId), expectedVersion: found.version, value };
      return [{ line: { person, credential: credentialId, until_ms: untilMs }, change }];
    });
  }

  #registrationChallenge(person: string, roundsAgo: number): Uint8Array {
    return this.nonce(`register ${Math.floor(this.#now() / ROUND_MS) - roundsAgo} ${person}`);
  }
}

/** The key of an authenticator as JSON Web Key; undefined for a kind that is not supported. */
function jwkOf(publicKey: Uint8Array<ArrayBuffer>): Passkey['key'] | undefined {
  const decoded = decodeCredentialPublicKey(publicKey);
  const text = (value: unknown) => (value instanceof Uint8Array ? Buffer.from(value).toString('base64url') : '');
  const field = (key: number) => text((decoded as unknown as Map<number, unknown>).get(key));
  const made = cose.isCOSEPublicKeyEC2(decoded)
    ? { kty: 'EC', crv: 'P-256', x: field(-2), y: field(-3) }
    : cose.isCOSEPublicKeyOKP(decoded)
      ? { kty: 'OKP', crv: 'Ed25519', x: field(-2) }
      : { kty: 'RSA', n: field(-1), e: field(-2) };
  const parsed = passkeyJwkSchema.safeParse(made);
  if (!parsed.success) return undefined;
  try {
    createPublicKey({ key: parsed.data, format: 'jwk' });
    return parsed.data;
  } catch {
    return undefined;
  }
}
