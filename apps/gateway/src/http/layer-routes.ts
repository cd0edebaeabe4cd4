import { err, ok } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { redecideUnsettled } from '../calls/redecide.ts';
import type { Gateway } from '../context.ts';
import { grantsOf } from '../grants/use-grants.ts';
import { releaseHeld, revokeTrust, trustFile, trustFolder } from '../layers/give-trust.ts';
import { rulesOfCall } from '../layers/saved-rules.ts';
import { type Ground, groundOf, lastGround, lay } from '../layers/session-layers.ts';
import { fragmentText, reachText } from '../layers/stored-rule.ts';
import { maskText } from '../masking.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const token = z.string().regex(/^[\w-]{1,64}$/);
const params = z.object({ id: token });
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const NO_SESSION = { code: ERROR_CODES.notFound, message: 'no such session' };

/** The ground of a session as its host has it now, or had it last. */
async function groundNow(gateway: Gateway, id: string) {
  // A decision on older trusts is refused by the record; what is only shown is not.
  await gateway.layers.refresh();
  const chain = await gateway.sessions.chain(id);
  if (!chain) return err(NO_SESSION);
  const { host } = chain.session;
  const member = gateway.hosts.present(host, gateway.now()) && (await gateway.members.find('host', host));
  const isLive = member && chain.bounded.state === 'open';
  const found = isLive ? await groundOf(gateway, chain, member) : undefined;
  return ok(found?.ok ? found.value : await lastGround(gateway, chain));
}

const groundView = ({ files, named, rules }: Ground) => ({
  files: named.map((one) => {
    const file = files.find(({ layer, digest: of }) => layer === one.layer && of === one.digest);
    if (!file) return one;
    const { path, problem, source } = file;
    return { ...one, path, problem: maskText(problem), ...(source ? { content: source } : {}) };
  }),
  rules: rules.map((rule) => ({
    id: rule.id,
    says: fragmentText(rule.fragment).map(maskText),
    reach: reachText(rule),
  })),
});

function sessionRoutes(app: Http, gateway: Gateway): void {
  /** Permission files and saved rules of a session: what they say, their digests, and whether they count whole or only tighten. */
  app.get(
    '/v1/sessions/:id/layers',
    { config: { access: ACCESS.exportAll }, schema: { params } },
    async (request, reply) => {
      const ground = await groundNow(gateway, request.params.id);
      return ground.ok ? groundView(ground.value) : sendProblem(reply, ground.error);
    },
  );

  /** What the engine would answer for a call of a session, with layers, deciding rules and what is ignored. Records nothing of it. */
  app.post(
    '/v1/sessions/:id/explain',
    {
      config: { access: ACCESS.exportAll },
      schema: {
        params,
        body: z.strictObject({ tool: z.string().min(1).max(256), args: z.record(z.string(), z.unknown()) }),
      },
    },
    async (request, reply) => {
      const ground = await groundNow(gateway, request.params.id);
      if (!ground.ok) return sendProblem(reply, ground.error);
      const { bounded } = ground.value.chain;
      const host = gateway.hosts.last(bounded.host);
      if (!host) return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'its host has not reported yet' });
      const { tool, args } = request.body;
      const call = { tool, args, executor: 'runner', tighten: '', tightenSource: '' };
      const rules = rulesOfCall(ground.value.rules, { tool: tool as 'bash', args }, bounded, host.home);
      const known = { realpaths: {}, grants: grantsOf(gateway, bounded.id), laid: lay(ground.value, rules) };
      return { ...gateway.policy.current.explain(bounded, call, host, known), ...groundView(ground.value) };
    },
  );

  /** Lets go what an earlier version of a permission file took away from a session. */
  app.delete(
    '/v1/sessions/:id/held/:digest',
    { config: { access: ACCESS.enrol }, schema: { params: params.extend({ digest }) } },
    async (request, reply) => {
      const chain = await gateway.sessions.chain(request.params.id);
      if (!chain) return sendProblem(reply, NO_SESSION);
      const done = await releaseHeld(gateway, chain, request.params.digest, principalOf(request).name);
      return done.ok ? { released: request.params.digest } : sendProblem(reply, done.error);
    },
  );
}

/** Routes of trusted files and folders, and of the layers of a session. */
export function addLayerRoutes(app: Http, gateway: Gateway): void {
  sessionRoutes(app, gateway);

  /** Files and folders that people trusted, also those that ended; newest first. */
  app.get('/v1/trust', { config: { access: ACCESS.exportAll } }, async () => {
    await gateway.layers.refresh();
    return { trust: gateway.layers.trusts() };
  });

  /** Trusts the content of a workspace file that has exactly this digest now, on the host of a session. */
  app.post(
    '/v1/trust/files',
    {
      config: { access: ACCESS.enrol },
      schema: { body: z.strictObject({ session: token, layer: z.enum(['project', 'local']), digest }) },
    },
    async (request, reply) => {
      const chain = await gateway.sessions.chain(request.body.session);
      if (!chain) return sendProblem(reply, NO_SESSION);
      const given = await trustFile(gateway, chain, request.body, principalOf(request).name);
      return given.ok ? given.value : sendProblem(reply, given.error);
    },
  );

  /** Lets an agent open sessions in a folder of a host; `path` is the real path of a folder that is there now. */
  app.post(
    '/v1/trust/folders',
    {
      config: { access: ACCESS.enrol },
      schema: {
        body: z.strictObject({ agent: token, host: token, path: z.string().startsWith('/').max(4_096) }),
      },
    },
    async (request, reply) => {
      const given = await trustFolder(gateway, request.body, principalOf(request).name);
      return given.ok ? given.value : sendProblem(reply, given.error);
    },
  );

  /** Ends a trust; calls that have not started and became stricter are withdrawn. */
  app.delete('/v1/trust/:id', { config: { access: ACCESS.operate }, schema: { params } }, async (request, reply) => {
    const ended = await revokeTrust(gateway, request.params.id, principalOf(request).name);
    if (!ended.ok) return sendProblem(reply, ended.error);
    void redecideUnsettled(gateway);
    return ended.value;
  });
}
