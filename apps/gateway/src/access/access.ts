import type { ApiTokens } from './api-tokens.ts';
import type { Authenticator } from './authenticator.ts';
import type { Directory } from './directory.ts';
import type { Passkeys } from './passkeys.ts';
import type { SignIn } from './sign-in.ts';

/** Everything of sign-in, tokens and people of one gateway. */
export type Access = {
  readonly authenticator: Authenticator;
  readonly tokens: ApiTokens;
  readonly directory: Directory;
  readonly signIn: SignIn;
  readonly passkeys: Passkeys;
  readonly hardened: () => boolean;
};
