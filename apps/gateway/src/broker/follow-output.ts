import type { NatsConnection } from '@countersign/service-kit';
import type { LiveOutput } from './live-output.ts';

/** Follows what the commands of every host print. */
export function followOutput(connection: NatsConnection, output: LiveOutput): LiveOutput {
  connection.subscribe('cs.v1.output.*.*', {
    callback: (error, message) => {
      if (!error) void output.take(message.subject, message.data).catch(() => undefined);
    },
  });
  return output;
}
