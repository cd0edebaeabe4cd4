export { startNats, startPostgres } from '@countersign/service-kit/embedded';
export { useNats, usePostgres } from './use-servers.ts';
