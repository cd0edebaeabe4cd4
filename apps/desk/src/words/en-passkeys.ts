/** Texts about the signed-in person, passkeys and sign-in. */
export const enPasskeys = {
  'nav.you': 'You',
  'you.title': 'You',
  'you.name': 'Name',
  'you.roles': 'Roles',
  'you.groups': 'Groups',
  'passkey.title': 'Passkeys',
  'passkey.about':
    'Some queues take approvals signed with a passkey only. A new passkey decides once the organisation root has signed a list with it.',
  'passkey.noneYet': 'No passkey yet',
  'passkey.added': 'added {{time}}',
  'passkey.listed': 'decides',
  'passkey.unlisted': 'waits for the signed list',
  'passkey.remove': 'Remove {{label}}',
  'passkey.label': 'Name of the new passkey',
  'passkey.labelHint': 'Laptop, security key',
  'passkey.add': 'Add a passkey',
  'passkey.failed': 'Not done',
  'passkey.cancelled': 'The browser or its authenticator ended this. Try again.',
  'passkey.mismatch':
    'The gateway asked your passkey to sign something else than this page shows. Nothing was signed. Read the call again, and tell whoever runs the gateway.',
  'passkey.none': 'You have no passkey here. Add one on the page “You”.',
  'passkey.needed': 'This queue takes approvals with your passkey only.',
  'decide.refusal': 'Your approval would not count: {{why}}.',
  'signIn.oidc': 'Sign in with your organisation',
  'signIn.again': 'Sign in again, then repeat this',
  'signIn.newLink': 'Your sign-in is too old for this. Open a new one-time login link.',
} as const;
