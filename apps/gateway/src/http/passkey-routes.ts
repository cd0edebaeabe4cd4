import { type CallRecord, ERROR_CODES, MAX_TREE_CALLS, PasskeyAssertion } from '@countersign/protocol';
import type { RegistrationResponseJSON } from '@simplewebauthn/server';
import { z } from 'zod';
import { hasRole } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { callIdSchema, NO_CALL, visibleCall, visibleCallById } from './visible-call.ts';

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');

const NO_PASSKEYS = { code: ERROR_CODES.passkeyRefused, message: 'passkeys are not configured here' };

const part = z.base64url().max(20_000);

/** A passkey's answer as a browser has it, with what it was asked. */
export const assertionSchema = z
  .strictObject({
    nonce: part,
    statement: part,
    credentialId: part,
    clientDataJSON: part,
    authenticatorData: part,
    signature: part,
    /** The call's place among those that one signature approves, from `POST /v1/challenges`. */
    tree: z
      .strictObject({
        index: z.int().min(0).max(MAX_TREE_CALLS),
        size: z.int().min(2).max(MAX_TREE_CALLS),
        path: z.array(part).max(16),
        root: part,
      })
      .optional(),
  })
  .transform(({ clientDataJSON, tree, ...parts }) => {
    const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
    return PasskeyAssertion.fromPartial({
      nonce: bytes(parts.nonce),
      statement: bytes(parts.statement),
      credentialId: bytes(parts.credentialId),
      clientDataJson: bytes(clientDataJSON),
      authenticatorData: bytes(parts.authenticatorData),
      signature: bytes(parts.signature),
      ...(tree ? { tree: { ...tree, path: tree.path.map(bytes), root: bytes(tree.root) } } : {}),
    });
  });

/** The browser's answer; its inside is judged by the library that knows the format. */
const registrationSchema = z.looseObject({ id: z.string().max(2_000), rawId: z.string().max(2_000), type: z.string() });

function ownRoutes(app: Http, { access: { passkeys } }: Gateway): void {
  /** Passkeys of the caller; of everybody for an admin or auditor. `listed`: the root has signed a list with it. */
  app.get('/v1/passkeys', { config: { access: ACCESS.read } }, async (request) => {
    const principal = principalOf(request);
    const all = hasRole(principal, ['admin', 'auditor']);
    const listed = new Set((await passkeys.published())?.list.approvers.map(({ credentialId }) => credentialId));
    const found = await passkeys.list(all ? undefined : principal.name);
    return { passkeys: found.map((passkey) => ({ ...passkey, listed: listed.has(passkey.credential_id) })) };
  });

  /** What a browser needs to make a passkey for the caller. */
  app.post('/v1/passkeys/options', { config: { access: ACCESS.delegate } }, async (request, reply) => {
    const options = await passkeys.registrationOptions(principalOf(request).name);
    return options ?? sendProblem(reply, NO_PASSKEYS);
  });

  /** Enrols the caller's passkey; it decides after the root has signed a list with it. */
  app.post(
    '/v1/passkeys',
    {
      config: { access: ACCESS.delegate },
      schema: { body: z.strictObject({ label: z.string().min(1).max(100), response: registrationSchema }) },
    },
    async (request, reply) => {
      const { label, response } = request.body;
      const { name } = principalOf(request);
      const made = await passkeys.register(name, label, response as unknown as RegistrationResponseJSON);
      return made.ok ? reply.code(201).send(made.value) : sendProblem(reply, made.error);
    },
  );

  /** Removes a passkey of the caller; of anybody for an admin. */
  app.delete(
    '/v1/passkeys/:credential',
    { config: { access: ACCESS.ownTokens }, schema: { params: z.object({ credential: z.base64url().max(1_400) }) } },
    async (request, reply) => {
      const principal = principalOf(request);
      const { credential } = request.params;
      const mine = hasRole(principal, ['admin']) ? undefined : principal.name;
      const removed = await passkeys.remove(credential, principal.name, mine);
      return removed ? { credential } : sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such passkey' });
    },
  );
}

function listRoutes(app: Http, { access: { passkeys } }: Gateway): void {
  /** The signed list of approvers in force, and the next one for the root to sign. */
  app.get('/v1/approver-list', { config: { access: ACCESS.exportAll } }, async (_request, reply) => {
    const draft = await passkeys.draft();
    if (!draft) return sendProblem(reply, NO_PASSKEYS);
    const published = await passkeys.published();
    return {
      draft,
      ...(published ? { published: published.list, signed: Buffer.from(published.signed).toString('base64') } : {}),
    };
  });

  /** Puts a list in force that the organisation root signed. Its version never goes back. */
  app.put(
    '/v1/approver-list',
    { config: { access: ACCESS.administer }, schema: { body: z.strictObject({ signed: z.base64().max(60_000) }) } },
    async (request, reply) => {
      const signed = new Uint8Array(Buffer.from(request.body.signed, 'base64'));
      const published = await passkeys.publish(signed, principalOf(request).name);
      return published.ok ? { version: published.value.version } : sendProblem(reply, published.error);
    },
  );
}

function challengeRoute(app: Http, gateway: Gateway): void {
  /** What the caller's passkey has to sign to approve a call of a queue that asks for passkeys. */
  app.post(
    '/v1/calls/:id/challenge',
    { config: { access: ACCESS.decide }, schema: { params: callIdSchema } },
    async (request, reply) => {
      const call = await visibleCall(gateway, request);
      if (!call) return sendProblem(reply, NO_CALL);
      const { name } = principalOf(request);
      const { settings } = gateway.access.passkeys;
      const made = gateway.governance.passkey.challenge(call, name);
      if (!made || !settings) return sendProblem(reply, NO_PASSKEYS);
      const own = await gateway.access.passkeys.list(name);
      return {
        statement: text(made.statement),
        nonce: text(made.nonce),
        challenge: text(made.challenge),
        rpId: settings.rpId,
        credentialIds: own.map(({ credential_id }) => credential_id),
      };
    },
  );

  /** What the caller's passkey has to sign to approve several calls at once; each is decided on its own with its part. */
  app.post(
    '/v1/challenges',
    {
      config: { access: ACCESS.decide },
      schema: { body: z.strictObject({ calls: z.array(callIdSchema.shape.id).min(2).max(MAX_TREE_CALLS) }) },
    },
    async (request, reply) => {
      const calls: CallRecord[] = [];
      for (const id of new Set(request.body.calls)) {
        const call = await visibleCallById(gateway, request, id);
        if (!call) return sendProblem(reply, NO_CALL);
        calls.push(call);
      }
      if (calls.length < 2)
        return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: 'name at least two different calls' });
      const { name } = principalOf(request);
      const { settings } = gateway.access.passkeys;
      const made = gateway.governance.passkey.challengeAll(calls, name);
      if (!made || !settings) return sendProblem(reply, NO_PASSKEYS);
      const own = await gateway.access.passkeys.list(name);
      return {
        challenge: text(made.challenge),
        rpId: settings.rpId,
        credentialIds: own.map(({ credential_id }) => credential_id),
        calls: made.calls.map(({ callId, statement, nonce, tree }) => ({
          ...{ callId, statement: text(statement), nonce: text(nonce) },
          tree: { ...tree, path: tree.path.map(text), root: text(tree.root) },
        })),
      };
    },
  );
}

/** Routes of passkeys, the approver list and challenges. */
export function addPasskeyRoutes(app: Http, gateway: Gateway): void {
  ownRoutes(app, gateway);
  listRoutes(app, gateway);
  challengeRoute(app, gateway);
}
