import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { type Backend, chooseBackend } from '@countersign/sandbox';
import type { SelfTest, ToolError, ToolLimits } from '../work/host-tools.ts';
import type { LauncherWork } from './messages.ts';

const PLATFORM = process.platform === 'darwin' ? 'seatbelt' : 'bubblewrap';
const offHere = (name: string): string =>
  `${name} is off on this host: commands run as the runner's own account; name it in \`accept\` of the runner`;

export type BackendOptions = {
  /** Account of every command; null is this process's own. */
  readonly runAs: unknown;
  /** What is accepted by name although commands share the runner's account. */
  readonly accept?: readonly string[];
};

/** The backends of this host, by its newest self-test. */
export class Backends {
  readonly #accepts: (name: 'full-access' | 'app-guard') => boolean;
  #platformOff = '';
  #appGuardOff = 'the self-test has not run yet';

  constructor({ runAs, accept = [] }: BackendOptions) {
    this.#accepts = (name) => runAs !== null || accept.includes(name);
  }

  /** Takes what the launcher found, and tells what this host may use of it. */
  after({ backends, reason, appGuardOff }: LauncherWork['selfTest'][1]): SelfTest {
    this.#platformOff = backends.length > 0 ? '' : reason || 'its self-test failed';
    this.#appGuardOff = this.#accepts('app-guard') ? appGuardOff : offHere('it');
    return { backends: [...backends, ...(this.#appGuardOff === '' ? ['app-guard'] : [])], reason };
  }

  /** The backend of a command with these limits, or why it does not run. */
  of({ profile, backend = '', backendFallback = false, hardened = false }: ToolLimits): Result<Backend, ToolError> {
    if (profile === 'full-access' && !this.#accepts(profile)) {
      return err({ code: ERROR_CODES.profileRefused, message: offHere(`profile \`${profile}\``) });
    }
    const wish = { backend, fallback: backendFallback, hardened };
    const offer = { platform: PLATFORM, platformOff: this.#platformOff, appGuardOff: this.#appGuardOff } as const;
    const chosen = chooseBackend(wish, offer);
    return chosen.ok ? ok(chosen.value) : err({ code: ERROR_CODES.sandboxUnavailable, message: chosen.error });
  }
}
