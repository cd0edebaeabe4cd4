import { err, ok, type Result } from '@countersign/kernel';

/** What can stand between a command and its host. The app-guard only checks what a command names; it isolates nothing. */
export const BACKENDS = ['bubblewrap', 'seatbelt', 'app-guard'] as const;
export type Backend = (typeof BACKENDS)[number];

/** What an order demands. */
export type BackendWish = {
  /** Empty or `auto` is the sandbox of the platform. */
  readonly backend: string;
  /** Another sandbox may stand in for the one that was named. */
  readonly fallback: boolean;
  readonly hardened: boolean;
};

/** What a host has. */
export type BackendOffer = {
  /** The sandbox of its platform. */
  readonly platform: 'bubblewrap' | 'seatbelt';
  /** Why the sandbox cannot be used; empty when it holds. */
  readonly platformOff: string;
  /** Why the app-guard is off here; empty when it may be used. */
  readonly appGuardOff: string;
};

const isBackend = (name: string): name is Backend => BACKENDS.some((each) => each === name);

function offBecause(wanted: Backend, { hardened }: BackendWish, offer: BackendOffer): string {
  if (wanted === offer.platform) return offer.platformOff;
  if (wanted !== 'app-guard') return `this host has \`${offer.platform}\``;
  return hardened ? 'hardened mode runs commands only in a sandbox' : offer.appGuardOff;
}

/**
 * The backend of a command, or why it does not run. SECURITY: the app-guard is used only where it is named; it never stands
 * in for a sandbox, and hardened mode never uses it. An unknown name is refused.
 */
export function chooseBackend(wish: BackendWish, offer: BackendOffer): Result<Backend, string> {
  const { platform } = offer;
  const wanted = wish.backend === '' || wish.backend === 'auto' ? platform : wish.backend;
  if (!isBackend(wanted)) return err(`backend \`${wanted.slice(0, 50)}\` is not known here; update the runner`);
  const why = offBecause(wanted, wish, offer);
  if (why === '') return ok(wanted);
  const standsIn = wish.fallback && !wish.hardened && wanted !== platform && offer.platformOff === '';
  return standsIn ? ok(platform) : err(`backend \`${wanted}\` is off: ${why}`);
}
