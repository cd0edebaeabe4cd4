export { startNats, startPostgres } from '@countersign/service-kit/embedded';
export { type IdentityProvider, startIdentityProvider } from './identity-provider.ts';
export { type PasskeyChange, SoftwarePasskey } from './software-passkey.ts';
export { useNats, usePostgres } from './use-servers.ts';
