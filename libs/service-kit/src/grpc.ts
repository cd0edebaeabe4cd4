import { FaultError } from '@countersign/kernel';
import {
  type ChannelCredentials,
  type ChannelOptions,
  credentials,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  type ServiceDefinition,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import { type ClientTls, demandTls, readTls, type ServerTls } from './tls.ts';

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

const HEALTH = '/grpc.health.v1.Health/';

/**
 * SECURITY: who may call is read from the certificate that the connection was made with. Anybody whom the authority knows may
 * ask for the health.
 */
const onlyClients =
  (clients: readonly string[]): ServerInterceptor =>
  (method, call) => {
    const name = call.getAuthContext().sslPeerCertificate?.subject?.CN;
    if (method.path.startsWith(HEALTH) || (typeof name === 'string' && clients.includes(name)))
      return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start: (next) => {
        next(new ServerListenerBuilder().withOnReceiveMetadata(() => undefined).build());
        call.sendStatus({ code: status.PERMISSION_DENIED, details: 'this certificate may not call this service' });
      },
    });
  };

function serverCredentials(tls: ServerTls | undefined): ServerCredentials {
  if (!tls) return ServerCredentials.createInsecure();
  const { ca, cert, key } = readTls(tls);
  return ServerCredentials.createSsl(ca, [{ cert_chain: cert, private_key: key }], true);
}

/**
 * Serves `services` and the health service; with `tls` to clients that it names, without it on loopback alone. Rejects with a
 * FaultError when the address is taken, or is not of this machine alone and there is no `tls`.
 */
export async function serveGrpc(options: {
  services: readonly GrpcService[];
  host: string;
  port: number;
  tls?: ServerTls | undefined;
}): Promise<GrpcServer> {
  demandTls(`${options.host}:${options.port}`, options.tls);
  const interceptors = options.tls ? [onlyClients(options.tls.clients)] : [];
  const server = new Server({ ...CHANNEL_OPTIONS, interceptors });
  const health = healthServer();
  health.addTo(server);
  for (const { definition, implementation } of options.services) server.addService(definition, implementation);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${options.host}:${options.port}`, serverCredentials(options.tls), (error, bound) =>
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

/** Constructor of a ts-proto client. */
export type GrpcClientConstructor<Client> = new (
  address: string,
  channelCredentials: ChannelCredentials,
  options?: ChannelOptions,
) => Client;

/** Credentials and options of a connection to `address`. Throws a FaultError without `tls` when that is another machine. */
export function grpcConnection(
  address: string,
  tls: ClientTls | undefined,
): { readonly credentials: ChannelCredentials; readonly options: ChannelOptions } {
  demandTls(address, tls);
  if (!tls) return { credentials: credentials.createInsecure(), options: CHANNEL_OPTIONS };
  const { ca, cert, key } = readTls(tls);
  return {
    credentials: credentials.createSsl(ca, key, cert),
    options: { ...CHANNEL_OPTIONS, 'grpc.ssl_target_name_override': tls.serverName },
  };
}

/** Makes a generated client for `address` with the product's keepalive and size limits. */
export function grpcClient<Client>(
  Constructor: GrpcClientConstructor<Client>,
  address: string,
  tls?: ClientTls | undefined,
): Client {
  const connection = grpcConnection(address, tls);
  return new Constructor(address, connection.credentials, connection.options);
}
