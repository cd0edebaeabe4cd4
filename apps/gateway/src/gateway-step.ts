/** Where a call stands inside the gateway, in the order of the road: what is durable at each differs. */
export type GatewayStep =
  | 'call.taken'
  | 'call.recorded'
  | 'order.published'
  | 'call.announced'
  | 'answer.taken'
  | 'answer.recorded'
  | 'stop.recorded'
  | 'session.closed'
  | 'outcome.taken'
  | 'outcome.recorded'
  | 'outcome.announced';
