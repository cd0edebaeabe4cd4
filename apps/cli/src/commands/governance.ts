import { type Command, Option } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { print } from '../output.ts';

const delegationSchema = z.looseObject({
  id: z.string(),
  giver: z.string(),
  receiver: z.string(),
  groups: z.array(z.string()),
  until_ms: z.number(),
});
const reviewSchema = z.looseObject({
  call: z.string(),
  queue: z.string(),
  by: z.string(),
  reason: z.string(),
  due_ms: z.number(),
  reviewed_by: z.string().nullable(),
  verdict: z.string().nullable(),
});
type Review = z.infer<typeof reviewSchema>;

const time = (ms: number): string => new Date(ms).toISOString();

const reviewLine = ({ call, queue, by, reason, due_ms, reviewed_by, verdict }: Review): string =>
  [call, queue, by, reviewed_by === null ? `due ${time(due_ms)}` : `${verdict} (${reviewed_by})`, reason].join('  ');

/** `countersign delegations list | revoke`. */
export function addDelegationsCommand(program: Command): void {
  const delegations = program
    .command('delegations')
    .description('who decides for whom; a person gives his own at the desk, since a token never lends anything');
  delegations
    .command('list')
    .description('delegations that hold now')
    .action(async (_options: object, command: Command) => {
      const schema = z.object({ delegations: z.array(delegationSchema) });
      const found = accepted(await localGateway(command, 'local-admin').request('GET', '/v1/delegations', schema));
      const lines = found.delegations.map(({ id, giver, receiver, groups, until_ms }) =>
        [id, `${receiver} for ${giver}`, groups.join(','), `until ${time(until_ms)}`].join('  '),
      );
      print(command, found, lines.join('\n') || 'nobody decides for somebody else');
    });
  delegations
    .command('revoke <id>')
    .description('end a delegation at once; answers that were given stay recorded')
    .action(async (id: string, _options: object, command: Command) => {
      const route = `/v1/delegations/${encodeURIComponent(id)}`;
      accepted(await localGateway(command, 'local-admin').request('DELETE', route, z.unknown()));
      print(command, { id, revoked: true }, `${id}: ended`);
    });
}

/** `countersign reviews list | close`. */
export function addReviewsCommand(program: Command): void {
  const reviews = program.command('reviews').description('emergency approvals and their reviews');
  reviews
    .command('list')
    .description('every emergency approval, open ones first')
    .action(async (_options: object, command: Command) => {
      const schema = z.object({ reviews: z.array(reviewSchema) });
      const found = accepted(await localGateway(command, 'local-auditor').request('GET', '/v1/reviews', schema));
      const isOpen = ({ reviewed_by }: Review) => reviewed_by === null;
      const sorted = [...found.reviews].sort((a, b) => Number(isOpen(b)) - Number(isOpen(a)) || a.due_ms - b.due_ms);
      print(command, { reviews: sorted }, sorted.map(reviewLine).join('\n') || 'nobody broke glass');
    });
  reviews
    .command('close <call>')
    .description('review an emergency approval of somebody else')
    .addOption(
      new Option('--verdict <verdict>', 'what you found').choices(['justified', 'unjustified']).makeOptionMandatory(),
    )
    .requiredOption('--note <text>', 'why; kept in the record')
    .action(async (call: string, body: { verdict: string; note: string }, command: Command) => {
      const route = `/v1/reviews/${encodeURIComponent(call)}`;
      const { verdict, note } = body;
      const gateway = localGateway(command, 'local-auditor');
      accepted(await gateway.request('POST', route, z.unknown(), { verdict, note }));
      print(command, { call, verdict }, `${call}: ${verdict}`);
    });
}
