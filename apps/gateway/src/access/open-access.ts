import { readFileSync } from 'node:fs';
import type { Identity } from '@countersign/protocol';
import type { GatewayConfig } from '../config.ts';
import type { Delegations } from '../governance/delegations.ts';
import type { AuditLog } from '../record/audit-log.ts';
import type { Access } from './access.ts';
import { ApiTokens } from './api-tokens.ts';
import { Authenticator } from './authenticator.ts';
import { CoolDown } from './cool-down.ts';
import { Directory } from './directory.ts';
import { OidcSignIn } from './oidc-sign-in.ts';
import { Passkeys } from './passkeys.ts';
import { SignIn } from './sign-in.ts';

export type AccessParts = {
  readonly audit: AuditLog;
  readonly now: () => number;
  readonly hardened: () => boolean;
  readonly delegations: Delegations;
  readonly control: Identity;
};

/** Everything of sign-in, tokens and people of one gateway. */
export function openAccess(config: GatewayConfig, { audit, now, hardened, delegations, control }: AccessParts): Access {
  const directory = new Directory(audit, now);
  const tokens = new ApiTokens({ audit, directory, configured: config.tokens, now });
  const signIn = new SignIn(now);
  const coolDown = new CoolDown({ exemptLoopback: () => !hardened(), now });
  const authenticator = new Authenticator({
    tokens,
    directory,
    signIn,
    coolDown,
    configured: config.tokens,
    hardened,
    lent: async (subject) =>
      (await delegations.live()).flatMap(({ receiver, groups }) => (receiver === subject ? groups : [])),
  });
  const passkeys = new Passkeys({ audit, control, rootKey: config.rootKey, settings: config.passkeys, now });
  return { authenticator, tokens, directory, signIn, passkeys, hardened };
}

/** Sign-in with the configured identity provider; undefined when there is none. Throws when the secret cannot be read. */
export function openOidc(config: GatewayConfig, directory: Directory, now: () => number): OidcSignIn | undefined {
  if (!config.oidc) return undefined;
  const { clientSecretFile } = config.oidc;
  const secret = clientSecretFile === undefined ? undefined : readFileSync(clientSecretFile, 'utf8').trim();
  return new OidcSignIn({
    config: config.oidc,
    secret,
    directory,
    reserved: config.tokens.map(({ name }) => name),
    now,
  });
}
