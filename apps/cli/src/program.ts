import { Command } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import { addApprovalsCommand } from './commands/approvals.ts';
import { addApproversCommand } from './commands/approvers.ts';
import { addAuditCommand } from './commands/audit.ts';
import { addCallCommand, addReportCommand } from './commands/call.ts';
import { addChangesCommand } from './commands/changes.ts';
import { addControlPlaneCommand } from './commands/control-plane.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addEnrollCommands } from './commands/enroll.ts';
import { addFreezeCommand } from './commands/freeze.ts';
import { addDelegationsCommand, addReviewsCommand } from './commands/governance.ts';
import { addGrantsCommand } from './commands/grants.ts';
import { addGuardianCommand } from './commands/guardian.ts';
import { addKeysCommand } from './commands/keys.ts';
import { addLoginLinkCommand } from './commands/login-link.ts';
import { addNotificationsCommand } from './commands/notifications.ts';
import { addPermissionCommand, addRequestsCommand } from './commands/permission.ts';
import { addPolicyCommand } from './commands/policy.ts';
import { addProcessesCommand } from './commands/processes.ts';
import { addRulesCommand } from './commands/rules.ts';
import { addSandboxCommand } from './commands/sandbox.ts';
import { addSessionCommand } from './commands/session.ts';
import { addStartCommand } from './commands/start.ts';
import { addTokensCommand } from './commands/tokens.ts';
import { addTrustCommand } from './commands/trust.ts';

const EXIT_CODES = `
Exit codes: 0 done; 1 refused, denied, failed or problems found; 2 wrong usage or missing input;
3 the installation is not started or does not answer; 4 not implemented.
\`sandbox exec\` ends with the code of its command.`;

/** The command line with all its commands. */
export function program(): Command {
  const root = new Command('countersign')
    .description('an approval gateway for fleets of AI agents')
    .version(packageJson.version)
    .option('--json', 'print one JSON value')
    .option('--data <folder>', 'data folder of the installation on this machine')
    .option('--connection <file>', 'connection to a control plane elsewhere; COUNTERSIGN_CONNECTION names it too')
    .enablePositionalOptions()
    .addHelpText('after', EXIT_CODES);
  for (const add of [
    addStartCommand,
    addCallCommand,
    addReportCommand,
    addApprovalsCommand,
    addChangesCommand,
    addProcessesCommand,
    addSessionCommand,
    addGrantsCommand,
    addGuardianCommand,
    addFreezeCommand,
    addAuditCommand,
    addSandboxCommand,
    addDoctorCommand,
    addTokensCommand,
    addLoginLinkCommand,
    addEnrollCommands,
    addApproversCommand,
    addDelegationsCommand,
    addReviewsCommand,
    addKeysCommand,
    addNotificationsCommand,
    addPolicyCommand,
    addControlPlaneCommand,
    addTrustCommand,
    addRulesCommand,
    addPermissionCommand,
    addRequestsCommand,
  ]) {
    add(root);
  }
  const settle = (command: Command) => {
    command.exitOverride();
    for (const inner of command.commands) {
      if (inner.parent?.name() !== 'sandbox')
        inner
          .option('--json', 'print one JSON value')
          .option('--data <folder>', 'data folder')
          .option('--connection <file>', 'connection file');
      settle(inner);
    }
  };
  settle(root);
  return root;
}
