import type { Identity } from '@countersign/protocol';
import { openAccess } from '../access/open-access.ts';
import type { GatewayConfig } from '../config.ts';
import type { Gateway } from '../context.ts';
import type { PolicyDesk } from '../policy/policy-desk.ts';
import type { AuditLog } from '../record/audit-log.ts';
import { Sessions } from '../record/sessions.ts';
import { BreakGlassReviews } from './break-glass-reviews.ts';
import { Delegations } from './delegations.ts';
import { Governance } from './governance.ts';
import { PasskeyApproval } from './passkey-approval.ts';

/** Who may sign in, and who may approve what. */
export function openPeople(
  config: GatewayConfig,
  { audit, policy, control, now }: { audit: AuditLog; policy: PolicyDesk; control: Identity; now: () => number },
): Pick<Gateway, 'access' | 'sessions' | 'governance'> {
  const sessions = new Sessions(audit);
  const delegations = new Delegations(audit, now);
  const hardened = () => policy.current.hardened;
  const access = openAccess(config, { audit, now, hardened, delegations, control });
  const policyDigest = () => policy.current.digest;
  const governance = new Governance({
    audit,
    queue: (name) => {
      const { queueRules } = policy.current;
      return Object.hasOwn(queueRules, name) ? queueRules[name] : undefined;
    },
    delegations,
    passkey: new PasskeyApproval({ passkeys: access.passkeys, policyDigest, now }),
    reviews: new BreakGlassReviews(audit, now),
    person: (subject) => access.authenticator.person(subject),
    sessionOwner: async (sessionId) => (await sessions.find(sessionId))?.session.principal,
    now,
  });
  return { access, sessions, governance };
}
