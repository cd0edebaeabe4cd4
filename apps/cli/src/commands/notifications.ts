import type { Command } from 'commander';
import { z } from 'zod';
import { accepted, localGateway } from '../local-installation.ts';
import { wholeNumber } from '../options.ts';
import { print } from '../output.ts';

const channelsSchema = z.object({ channels: z.array(z.object({ id: z.string(), kind: z.string() })) });
const deadSchema = z.object({
  notices: z.array(
    z.looseObject({
      seq: z.number(),
      channel: z.string(),
      why: z.string(),
      notice: z.looseObject({ type: z.string(), timestamp: z.string() }),
    }),
  ),
});

/** `countersign notifications channels | test | dead | replay`. */
export function addNotificationsCommand(program: Command): void {
  const notifications = program.command('notifications').description('channels that tell people outside the desk');
  const gateway = (command: Command) => localGateway(command, 'local-operator');
  notifications
    .command('channels')
    .description('the configured channels')
    .action(async (_options: object, command: Command) => {
      const found = accepted(await gateway(command).request('GET', '/v1/notifications/channels', channelsSchema));
      const lines = found.channels.map(({ id, kind }) => `${id}  ${kind}`);
      print(
        command,
        found,
        lines.join('\n') || 'no channel; add some to private/settings.yaml (docs/notifications.md)',
      );
    });
  notifications
    .command('test <channel>')
    .description('send a test notice')
    .action(async (channel: string, _options: object, command: Command) => {
      const path = `/v1/notifications/channels/${encodeURIComponent(channel)}/test`;
      const queued = accepted(await gateway(command).request('POST', path, z.object({ id: z.string() }), {}));
      print(command, queued, `queued as ${queued.id}; a failure is listed by \`countersign notifications dead\``);
    });
  notifications
    .command('dead')
    .description('notices that were given up, with the reason')
    .action(async (_options: object, command: Command) => {
      const found = accepted(await gateway(command).request('GET', '/v1/notifications/dead', deadSchema));
      const lines = found.notices.map(
        ({ seq, channel, why, notice }) => `${seq}  ${notice.timestamp}  ${channel}  ${notice.type}  ${why}`,
      );
      print(command, found, lines.join('\n') || 'none was given up');
    });
  notifications
    .command('replay <number>')
    .description('queue a given-up notice again; `notifications dead` lists the numbers')
    .action(async (seq: string, _options: object, command: Command) => {
      const path = `/v1/notifications/dead/${wholeNumber(seq, 'number')}/replay`;
      const queued = accepted(await gateway(command).request('POST', path, z.object({ queued: z.boolean() }), {}));
      print(command, queued, 'queued');
    });
}
