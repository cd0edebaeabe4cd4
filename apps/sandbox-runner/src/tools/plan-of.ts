import { ERROR_CODES } from '@countersign/protocol/error-codes';
import type { ChangeStore } from '../changes/change-store.ts';
import { planRollback } from '../changes/plan-rollback.ts';
import { refuse } from '../sandbox/sandbox-error.ts';
import type { CallOf, ChangeCall } from '../work/host-tools.ts';
import { type ChangePlan, planDelete, planEdit, planWrite } from './change-plan.ts';
import { type FileScope, resolvePath } from './real-path.ts';

type Planned = { readonly plan: ChangePlan; readonly rollsBack?: string };

/** SECURITY: kept contents are of all projects of the account, so the change must be of this project and this file. */
async function rollback({ args }: CallOf<'rollback'>, store: ChangeStore, scope: FileScope): Promise<Planned> {
  const change = await store.find(args.change);
  const { realPath } = await resolvePath(args.path, scope);
  if (!change || change.project !== scope.project || change.path !== realPath) {
    return refuse(ERROR_CODES.toolFailed, `change \`${args.change}\` of \`${args.path}\` is not known in this project`);
  }
  return { plan: await planRollback(change, store.blobs, args.force === true), rollsBack: change.id };
}

/** What a call would do to its file. Throws a SandboxRefusal for a change that is not known here. */
export async function planOf(call: ChangeCall, store: ChangeStore, scope: FileScope): Promise<Planned> {
  switch (call.tool) {
    case 'write':
      return { plan: planWrite(call.args.content) };
    case 'edit':
      return { plan: planEdit(call.args.oldText, call.args.newText) };
    case 'delete':
      return { plan: planDelete() };
    case 'rollback':
      return rollback(call, store, scope);
  }
}
