import type { NatsConnection } from '@countersign/service-kit';

/** Knows whether the broker is there, so that nothing piles up in the client's own buffer while it is not. */
export class BrokerLink {
  private readonly connection: NatsConnection;
  private isUp = true;
  private listeners: (() => void)[] = [];

  constructor(connection: NatsConnection) {
    this.connection = connection;
    void this.follow();
  }

  get connected(): boolean {
    return this.isUp && !this.connection.isClosed();
  }

  /** Calls `listener` after each reconnect. */
  onReconnect(listener: () => void): void {
    this.listeners.push(listener);
  }

  private async follow(): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === 'disconnect') this.isUp = false;
      if (status.type === 'reconnect') {
        this.isUp = true;
        for (const listener of this.listeners) listener();
      }
    }
    this.isUp = false;
  }
}
