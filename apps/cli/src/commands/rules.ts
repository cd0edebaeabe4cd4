import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

const ruleSchema = z.looseObject({
  id: z.string(),
  state: z.string(),
  says: z.array(z.string()),
  reach: z.string(),
  by: z.string(),
  expiresMs: z.number().nullable(),
});
type Rule = z.infer<typeof ruleSchema>;

const lineOf = ({ id, state, says, reach, by, expiresMs }: Rule): string => {
  const end = expiresMs === null ? 'no end' : `until ${new Date(expiresMs).toISOString()}`;
  return [id, state, says.join(', '), reach, `by ${by}`, end].join('  ');
};

/** `countersign rules list | publish | revoke`. */
export function addRulesCommand(program: Command): void {
  const rules = program.command('rules').description('rules that people saved with `approvals approve --for always`');
  rules
    .command('list')
    .description('saved rules')
    .action(async (_options: object, command: Command) => {
      const schema = z.object({ rules: z.array(ruleSchema) });
      const found = accepted(await localGateway(command, 'local-operator').request('GET', '/v1/rules', schema));
      print(command, found, found.rules.map(lineOf).join('\n') || 'no rule is saved');
    });
  const one = (name: string, about: string, method: string, rest: string) =>
    rules
      .command(`${name} <rule>`)
      .description(about)
      .action(async (id: string, _options: object, command: Command) => {
        const route = `/v1/rules/${encodeURIComponent(id)}${rest}`;
        const rule = accepted(await localGateway(command, 'local-operator').request(method, route, ruleSchema));
        print(command, rule, lineOf(rule));
      });
  one('publish', 'put a proposed rule in force; somebody else than who proposed it', 'POST', '/publish');
  one('revoke', 'end a rule; unstarted calls that became stricter are withdrawn', 'DELETE', '');
}
