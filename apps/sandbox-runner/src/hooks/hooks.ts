import type { ToolResult } from '@countersign/protocol';
import type { Logger } from '@countersign/service-kit';
import type { VerifiedOrder } from '../work/verify-order.ts';
import type { Hook, HookEvent, HooksConfig } from './hook.ts';
import { runHook } from './run-hook.ts';

/** The organisation's hooks of a host. They only tighten: before a call they may deny it, after it they observe. */
export class Hooks {
  private readonly config: HooksConfig;
  private readonly logger: Logger;

  constructor(config: HooksConfig, logger: Logger) {
    this.config = config;
    this.logger = logger;
  }

  /** Why the call may not start; undefined when every hook lets it. The first that denies ends the round. */
  async before(verified: VerifiedOrder): Promise<string | undefined> {
    for (const hook of about(this.config.before, verified)) {
      const answer = await runHook(hook, eventOf('before', verified));
      if (!answer.ok) return answer.error;
    }
    return undefined;
  }

  /** Tells how the call ended. Whatever a hook answers or does not answer changes nothing. */
  async after(verified: VerifiedOrder, end: { state: string; code: string; result: ToolResult }): Promise<void> {
    const { exited, exitCode } = end.result;
    const outcome = { state: end.state, code: end.code, ...(exited ? { exit_code: exitCode } : {}) };
    for (const hook of about(this.config.after, verified)) {
      const answer = await runHook(hook, { ...eventOf('after', verified), outcome });
      if (!answer.ok) this.logger.warn({ call: verified.order.callId, reason: answer.error }, 'an after-hook failed');
    }
  }
}

const about = (hooks: readonly Hook[], { call }: VerifiedOrder): readonly Hook[] =>
  hooks.filter(({ tools }) => tools.length === 0 || tools.includes(call.tool));

const eventOf = (event: HookEvent['event'], { order, call }: VerifiedOrder): HookEvent => ({
  event,
  call_id: order.callId,
  order_id: order.orderId,
  agent: order.agent,
  session_id: order.sessionId,
  host: order.host,
  tool: call.tool,
  project: order.project,
  profile: order.profile,
  args: call.args,
});
