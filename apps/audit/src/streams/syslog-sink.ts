import { readFileSync } from 'node:fs';
import { connect, type TLSSocket } from 'node:tls';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { Sink, StreamEntry } from './stream-entry.ts';
import { framed, syslogOf } from './syslog.ts';

const CONNECT_MS = 10_000;

export type SyslogTarget = {
  readonly host: string;
  readonly port: number;
  /** Certificates to trust, PEM; the server must prove to be `serverName` (default: `host`). */
  readonly caFile: string;
  readonly serverName?: string | undefined;
  /** Client certificate and key, PEM. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly enterpriseId: string;
};

const failed = (message: string, cause?: unknown): FaultError =>
  new FaultError(message, { code: ERROR_CODES.auditStreamFailed, retryable: true, cause });

function open(target: SyslogTarget, signal: AbortSignal): Promise<TLSSocket> {
  const { host, port, caFile, certFile, keyFile, serverName = host } = target;
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connect({
    host,
    port,
    servername: serverName,
    ca: readFileSync(caFile),
    minVersion: 'TLSv1.2',
    ...(certFile && keyFile ? { cert: readFileSync(certFile), key: readFileSync(keyFile) } : {}),
  });
  const timer = setTimeout(() => socket.destroy(failed('syslog server does not answer')), CONNECT_MS);
  const abort = () => socket.destroy(failed('syslog server took too long'));
  signal.addEventListener('abort', abort, { once: true });
  socket.once('secureConnect', () => resolve(socket));
  socket.once('error', (error) => reject(failed(`syslog server cannot be reached: ${error.message}`, error)));
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  });
}

/**
 * RFC 5424 messages over TLS (RFC 5425). The protocol has no answer: a batch counts as taken when the system's socket took
 * it, so that what a dying server had not read may be lost there; the other sinks answer.
 */
export function syslogSink(target: SyslogTarget): Sink {
  let socket: TLSSocket | undefined;
  const drop = () => {
    socket?.destroy();
    socket = undefined;
  };
  const write = (live: TLSSocket, bytes: Buffer, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const abort = () => reject(failed('syslog server took too long'));
      const lost = () => reject(failed('syslog server closed the connection'));
      signal.addEventListener('abort', abort, { once: true });
      live.once('close', lost);
      live.write(bytes, (error) => {
        signal.removeEventListener('abort', abort);
        live.off('close', lost);
        if (error) reject(failed(`syslog server broke off: ${error.message}`, error));
        else resolve();
      });
    });
  return {
    send: async (entries: readonly StreamEntry[], signal: AbortSignal) => {
      try {
        if (!socket || socket.destroyed || !socket.writable) {
          socket = await open(target, signal);
          socket.on('error', () => undefined);
          socket.resume();
        }
        const bytes = Buffer.concat(entries.map((entry) => framed(syslogOf(entry, target.enterpriseId))));
        await write(socket, bytes, signal);
      } catch (error) {
        drop();
        throw error;
      }
    },
    close: async () => drop(),
  };
}
