import { createServer } from 'node:http';
import Provider from 'oidc-provider';

export type IdentityProviderOptions = {
  readonly port: number;
  /** Redirect addresses of the client `countersign`. */
  readonly redirectUris: readonly string[];
  /** Groups by account; every account exists, and any password is right. */
  readonly groups: Readonly<Record<string, readonly string[]>>;
};

/** A running OpenID provider. */
export type IdentityProvider = {
  readonly issuer: string;
  /** How long ago people have signed in at the provider when they do so from now on, in seconds. */
  signedInAgo: number;
  readonly stop: () => Promise<void>;
};

/** Starts a real OpenID provider on `localhost` with its development forms: sign-in, then consent. */
export async function startIdentityProvider({
  port,
  redirectUris,
  groups,
}: IdentityProviderOptions): Promise<IdentityProvider> {
  const issuer = `http://localhost:${port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'countersign', redirect_uris: [...redirectUris], token_endpoint_auth_method: 'none' }],
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ sub: id, groups: groups[id] ?? [] }) }),
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
  });
  const server = createServer(provider.callback());
  await new Promise<void>((resolve) => server.listen(port, 'localhost', resolve));
  const running: IdentityProvider = {
    issuer,
    signedInAgo: 0,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const { loginAccount } = provider.Session.prototype;
  provider.Session.prototype.loginAccount = function login(details) {
    const loginTs = Math.floor(Date.now() / 1_000) - running.signedInAgo;
    loginAccount.call(this, { ...details, loginTs });
  };
  return running;
}
