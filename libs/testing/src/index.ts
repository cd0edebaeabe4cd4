export { startNats, startPostgres } from '@countersign/service-kit/embedded';
