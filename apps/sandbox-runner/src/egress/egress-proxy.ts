import type { Server, Socket } from 'node:net';
import { EgressLog } from './egress-log.ts';
import { EgressPolicy, type EgressRules, type ResolveHost } from './egress-policy.ts';
import { httpRoad } from './http-road.ts';
import { resolveHost } from './resolve-host.ts';
import { socksRoad } from './socks-road.ts';

const MAX_CONNECTIONS = 256;
/** However slowly its bytes come. */
const REQUEST_MS = 10_000;
const SOCKS_VERSION = 5;

export type EgressOptions = EgressRules & {
  readonly resolve?: ResolveHost;
  /** Time for a connection to say what it wants, milliseconds. */
  readonly requestMs?: number;
};

/** The only way out of one run of the profile `networked`. */
export class EgressProxy {
  readonly log = new EgressLog();
  readonly #policy: EgressPolicy;
  readonly #requestMs: number;
  readonly #open = new Set<Socket>();
  readonly #http;
  readonly #deadlines = new WeakMap<Socket, NodeJS.Timeout>();
  #server: Server | undefined;

  constructor({ resolve = resolveHost, requestMs = REQUEST_MS, ...rules }: EgressOptions) {
    this.#requestMs = requestMs;
    this.#policy = new EgressPolicy(rules, resolve);
    this.#http = httpRoad({ policy: this.#policy, log: this.log });
    const spoke = (socket: Socket) => clearTimeout(this.#deadlines.get(socket));
    this.#http.prependListener('request', ({ socket }) => spoke(socket));
    this.#http.prependListener('connect', ({ socket }) => spoke(socket));
  }

  /** Whether a way out was ever opened. */
  get opened(): boolean {
    return this.#server !== undefined;
  }

  /** Takes connections of a listening socket, which becomes this proxy's. */
  serve(server: Server): void {
    this.#server = server;
    server.on('connection', (socket) => this.#take(socket));
    server.on('error', () => undefined);
  }

  #take(socket: Socket): void {
    socket.on('error', () => socket.destroy());
    if (this.#open.size >= MAX_CONNECTIONS) {
      this.log.add({ via: 'connect', host: '', port: 0, refused: `more than ${MAX_CONNECTIONS} connections at once` });
      socket.destroy();
      return;
    }
    this.#open.add(socket);
    const deadline = setTimeout(() => socket.destroy(), this.#requestMs);
    this.#deadlines.set(socket, deadline);
    socket.once('close', () => {
      clearTimeout(deadline);
      this.#open.delete(socket);
    });
    socket.once('readable', () => this.#speak(socket, deadline));
  }

  /** The first byte tells the protocols apart. */
  #speak(socket: Socket, deadline: NodeJS.Timeout): void {
    const first = socket.read() as Buffer | null;
    if (first === null) {
      socket.destroy();
      return;
    }
    socket.unshift(first);
    if (first[0] === SOCKS_VERSION) {
      const road = { policy: this.#policy, log: this.log };
      socksRoad(road, socket, () => clearTimeout(deadline)).catch(() => socket.destroy());
    } else this.#http.emit('connection', socket);
  }

  /** Lets connections through by these rules from now on, and begins the log anew. */
  open(rules: EgressRules): void {
    this.log.clear();
    this.#policy.use(rules);
  }

  /** Ends every connection and refuses all until `open`. */
  shut(): void {
    this.#policy.use({ hosts: [], blockPrivateNetwork: true });
    for (const socket of this.#open) socket.destroy();
  }

  /** Ends for good. */
  close(): void {
    this.#server?.close();
    for (const socket of this.#open) socket.destroy();
  }
}
