/** Where an order stands inside the runner: what the journal holds at each differs. */
export type RunnerStep =
  | 'order.taken'
  | 'order.verified'
  | 'start.journalled'
  | 'tool.ended'
  | 'end.journalled'
  | 'outcome.sending'
  | 'outcome.acknowledged';
