import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { FaultError } from '@countersign/kernel';
import { z } from 'zod';

/** Certificate of this process, its key, and the authority that it trusts, as PEM files. */
const filesSchema = {
  certFile: z.string().min(1),
  keyFile: z.string().min(1),
  caFile: z.string().min(1),
};

/** TLS of a gRPC server. Every client shows a certificate of the authority. */
export const serverTlsSchema = z.strictObject({
  ...filesSchema,
  /** Common names that may call its services; others of the same authority may only ask for its health. */
  clients: z.array(z.string().min(1).max(128)).min(1).max(64).default(['gateway']),
});
export type ServerTls = z.output<typeof serverTlsSchema>;

/** TLS of a gRPC client. */
export const clientTlsSchema = z.strictObject(filesSchema);
export type ClientTls = z.output<typeof clientTlsSchema> & {
  /** Name that the server's certificate must be of, whatever its address. */
  readonly serverName: string;
};

export type TlsMaterial = { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer };

/** Reads the PEM files. Throws a FaultError that names the file at fault. */
export function readTls({ certFile, keyFile, caFile }: z.output<typeof clientTlsSchema>): TlsMaterial {
  const read = (file: string): Buffer => {
    try {
      return readFileSync(file);
    } catch (cause) {
      throw new FaultError(`cannot read \`${file}\``, { code: 'countersign.service.misconfigured', cause });
    }
  };
  return { cert: read(certFile), key: read(keyFile), ca: read(caFile) };
}

const isLoopbackHost = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

/** True when every address of a gRPC target is of this machine alone. */
export const isLoopback = (address: string): boolean =>
  address
    .replace(/^(?:ipv4|ipv6|dns):(?:\/\/[^/]*\/)?/, '')
    .split(',')
    .every((one) => isLoopbackHost(one.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')));

/** SECURITY: fails closed. Without TLS only this machine itself is spoken to, or listened for. */
export function demandTls(address: string, tls: object | undefined): void {
  if (tls || isLoopback(address)) return;
  throw new FaultError(`\`${address}\` is not of this machine alone; configure \`tls\``, {
    code: 'countersign.service.tls_required',
  });
}
