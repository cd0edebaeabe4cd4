/** How one attempt ended: `gone` will not heal by itself; `retry` may, not before `afterMs`. */
export type Delivery =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly why: string; readonly afterMs: number }
  | { readonly kind: 'gone'; readonly why: string };

export const delivered: Delivery = { kind: 'delivered' };
export const retry = (why: string, afterMs = 0): Delivery => ({ kind: 'retry', why, afterMs });
export const gone = (why: string): Delivery => ({ kind: 'gone', why });
