import { FaultError } from '@countersign/kernel';
import {
  Channel,
  type ChannelOptions,
  credentials,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';

/** Bounds of every gRPC connection. */
const CHANNEL_OPTIONS: ChannelOptions = {
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 1,
  'grpc.max_receive_message_length': 8 * 1_048_576,
  'grpc.max_send_message_length': 8 * 1_048_576,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

export type GrpcService = {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
};

/** A listening server. */
export type GrpcServer = {
  readonly port: number;
  /** Sets the answer of the health service; NOT_SERVING until called with true. */
  readonly setServing: (serving: boolean) => void;
  /** Refuses new calls and waits for running ones; ends them after `deadlineMs`. */
  readonly stop: (deadlineMs?: number) => Promise<void>;
};

/** The standard health service (`grpc.health.v1.Health`), NOT_SERVING at first. */
export function healthServer(): { addTo: (server: Server) => void; setServing: (serving: boolean) => void } {
  const health = new HealthImplementation({ '': 'NOT_SERVING' });
  return {
    addTo: (server) => health.addToServer(server),
    setServing: (serving) => health.setStatus('', serving ? 'SERVING' : 'NOT_SERVING'),
  };
}

/** Serves `services` and the health service on loopback or where `host` says. Rejects when the address is taken. */
export async function serveGrpc(options: {
  services: readonly GrpcService[];
  host: string;
  port: number;
}): Promise<GrpcServer> {
  const server = new Server(CHANNEL_OPTIONS);
  const health = healthServer();
  health.addTo(server);
  for (const { definition, implementation } of options.services) server.addService(definition, implementation);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${options.host}:${options.port}`, ServerCredentials.createInsecure(), (error, bound) =>
      error
        ? reject(
            new FaultError(`cannot listen on \`${options.host}:${options.port}\``, {
              code: 'countersign.service.listen_failed',
              cause: error,
            }),
          )
        : resolve(bound),
    );
  });
  const stop = (deadlineMs = 5_000) =>
    new Promise<void>((resolve) => {
      health.setServing(false);
      const timer = setTimeout(() => server.forceShutdown(), deadlineMs);
      server.tryShutdown(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  return { port, setServing: health.setServing, stop };
}

/** A channel for generated clients, passed as `channelOverride`. `address` is `host:port`. */
export const grpcChannel = (address: string): Channel =>
  new Channel(address, credentials.createInsecure(), CHANNEL_OPTIONS);

/** Constructor of a ts-proto client. */
export type GrpcClientConstructor<Client> = new (
  address: string,
  channelCredentials: ReturnType<typeof credentials.createInsecure>,
  options?: ChannelOptions,
) => Client;

/** Makes a generated client for `address` with the product's keepalive and size limits. */
export const grpcClient = <Client>(Constructor: GrpcClientConstructor<Client>, address: string): Client =>
  new Constructor(address, credentials.createInsecure(), CHANNEL_OPTIONS);
