import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuse } from './sandbox-error.ts';

/** Account of commands and file tools of a runner that was started as root. */
export type RunAccount = { readonly uid: number; readonly gid: number; readonly home: string };

const SETPRIV = '/usr/bin/setpriv';

/** Program and arguments that continue as the account, without groups, privileges or a way back. */
export function asAccount({ uid, gid }: RunAccount, command: readonly string[]): [string, string[]] {
  if (uid < 1 || gid < 1)
    refuse(ERROR_CODES.badOwner, 'the run account is root; set `COUNTERSIGN_RUN_AS` to another uid');
  const drop = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--no-new-privs', '--inh-caps=-all'];
  return [SETPRIV, [...drop, '--bounding-set=-all', '--pdeathsig=KILL', '--', ...command]];
}
