import type { GatewayConfig } from '../config.ts';
import type { Gateway } from '../context.ts';
import type { Access } from '../http/access-routes.ts';
import { ApiTokens } from './api-tokens.ts';
import { Authenticator } from './authenticator.ts';
import { CoolDown } from './cool-down.ts';
import { Directory } from './directory.ts';
import { SignIn } from './sign-in.ts';

/** Everything of sign-in, tokens and people of one gateway. */
export function openAccess(config: GatewayConfig, { audit, now, hardened }: Gateway): Access {
  const directory = new Directory(audit, now);
  const tokens = new ApiTokens({ audit, directory, configured: config.tokens, now });
  const signIn = new SignIn(now);
  const coolDown = new CoolDown({ exemptLoopback: !hardened, now });
  const authenticator = new Authenticator({
    tokens,
    directory,
    signIn,
    coolDown,
    configured: config.tokens,
    hardened,
  });
  return { authenticator, tokens, directory, signIn, hardened };
}
