import type { Command } from 'commander';
import { connectionOf } from '../connection.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { EXIT, print } from '../output.ts';

type Finding = { readonly check: string; readonly ok: boolean; readonly detail: string };

/** What the host's own pins demand, as its heartbeat says. */
function pinsText(classes: unknown): string {
  if (typeof classes !== 'number' || classes < 0) return 'no pins: nothing there needs a passkey';
  return classes === 1 ? '1 pinned class of orders' : `${classes} pinned classes of orders`;
}

async function findings(command: Command): Promise<Finding[]> {
  const gateway = localGateway(command, 'local-operator');
  if (!(await gateway.isReady())) {
    return [
      {
        check: 'gateway',
        ok: false,
        detail: connectionOf(command)
          ? 'does not answer ready; read the logs of gateway and audit'
          : 'does not answer ready; run `npm start` and read its log',
      },
    ];
  }
  const hosts = accepted(await gateway.hosts());
  return [
    { check: 'gateway', ok: true, detail: 'ready' },
    ...hosts.map(({ host, id, ready, reason, pinnedClasses }) => ({
      check: `host ${host ?? id}`,
      ok: ready === true,
      detail: ready ? `ready, ${pinsText(pinnedClasses)}` : (reason ?? 'no heartbeat'),
    })),
  ];
}

/** What is weak about an installation on one machine. */
const NOTES = [
  'root key: kept in `private/` of this installation; for anything but a trial deploy a control plane, whose root key leaves its machine (docs/deploy.md)',
  'account: control plane and commands share this machine; an agent with a shell of its own on the account that runs the control plane can act as you',
];

/** `countersign doctor`. */
export function addDoctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('what is ready, and what is weak')
    .action(async (_options: object, command: Command) => {
      const checks = await findings(command);
      const lines = checks.map(({ check, ok, detail }) => `${ok ? 'ok  ' : 'FAIL'} ${check}: ${detail}`);
      const notes = connectionOf(command) ? [] : NOTES;
      print(command, { checks, notes }, [...lines, ...notes.map((note) => `note ${note}`)].join('\n'));
      process.exitCode = checks.every(({ ok }) => ok) ? EXIT.ok : EXIT.refused;
    });
}
