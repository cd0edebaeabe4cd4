import { readFileSync } from 'node:fs';
import { ChangeStore } from '../changes/change-store.ts';
import { changeFile } from '../tools/change-file.ts';
import { planOf } from '../tools/plan-of.ts';
import type { ChangeCall } from '../work/host-tools.ts';

const [step = '', storeFolder = '', project = '', home = '', call = ''] = process.argv.slice(2);
/** `-` reads the call from standard input, for one that is too long for an argument. */
const parsed = JSON.parse(call === '-' ? readFileSync(0, 'utf8') : call) as ChangeCall;
const store = new ChangeStore(storeFolder);
const scope = { project, home, masks: [] };
const { plan, rollsBack } = await planOf(parsed, store, scope);
await changeFile({
  ...{ ...scope, callId: 'call_killed', path: parsed.args.path, plan, denyWrite: [], store },
  ...(rollsBack === undefined ? {} : { rollsBack }),
  now: Date.now,
  atStep: (reached) => {
    if (reached === step) process.kill(process.pid, 'SIGKILL');
  },
});
