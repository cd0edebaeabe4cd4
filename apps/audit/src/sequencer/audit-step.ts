/** Where a request or checkpoint stands inside the audit service: what is durable at each differs. */
export type AuditStep =
  | 'append.received'
  | 'batch.loaded'
  | 'batch.judged'
  | 'batch.committed'
  | 'batch.answered'
  | 'checkpoint.signed'
  | 'checkpoint.stored';
