import type { GatewayConfig } from '../config.ts';
import type { Gateway } from '../context.ts';
import { Notifier } from './notifier.ts';
import { tellOutside } from './tell-outside.ts';

/** What tells people outside the desk, and the address of the desk that they are led to. */
export type Outside = { readonly notifier: Notifier; readonly desk: URL; readonly stop: () => Promise<void> };

/** Makes streams and consumers of the configured channels and begins to tell. Rejects when a channel's secret cannot be read. */
export async function startNotifying(config: GatewayConfig, gateway: Gateway): Promise<Outside> {
  const { broker, now, logger } = gateway;
  const desk = new URL(config.publicUrl ?? `http://${config.http.host}:${config.http.port}`);
  const notifier = new Notifier({ ...broker, channels: config.channels, now, logger });
  await notifier.start();
  const end = tellOutside(gateway, notifier, desk);
  const stop = async () => {
    end();
    await notifier.stop();
  };
  return { notifier, desk, stop };
}
