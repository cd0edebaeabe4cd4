import { randomBytes, webcrypto } from 'node:crypto';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import 'reflect-metadata';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 86_400_000;
/** Longer than an installation runs without a restart, which makes new ones. */
const VALID_DAYS = 3_650;

/** PEM files of one member of a private authority. */
export type CertificateFiles = { readonly certFile: string; readonly keyFile: string; readonly caFile: string };

type KeyPair = Awaited<ReturnType<typeof newKeys>>;
const newKeys = () => webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);

function validity(): { notBefore: Date; notAfter: Date; serialNumber: string } {
  const now = Date.now();
  return {
    // A clock that is set back a little must not end the installation.
    notBefore: new Date(now - DAY_MS),
    notAfter: new Date(now + VALID_DAYS * DAY_MS),
    serialNumber: `00${randomBytes(15).toString('hex')}`,
  };
}

async function pemOfKey({ privateKey }: KeyPair): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', privateKey));
  return `-----BEGIN PRIVATE KEY-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END PRIVATE KEY-----\n`;
}

/**
 * Makes an authority and a certificate for each name: common name and DNS name are the name. SECURITY: the authority's key is
 * in no file and is gone when this returns, so that nobody can make another member. Folder 0700, files 0600.
 */
export async function makeCertificates<Name extends string>(
  folder: string,
  names: readonly Name[],
): Promise<Record<Name, CertificateFiles>> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
  const authority = await newKeys();
  const root = await X509CertificateGenerator.createSelfSigned({
    ...validity(),
    name: 'CN=countersign installation',
    keys: authority,
    signingAlgorithm: ALGORITHM,
    extensions: [new BasicConstraintsExtension(true, 0, true), new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true)],
  });
  const write = (file: string, text: string): string => {
    const place = path.join(folder, file);
    writeFileSync(place, text, { mode: 0o600 });
    return place;
  };
  const caFile = write('ca.pem', root.toString('pem'));
  const made: [Name, CertificateFiles][] = [];
  for (const name of names) {
    const keys = await newKeys();
    const certificate = await X509CertificateGenerator.create({
      ...validity(),
      subject: `CN=${name}`,
      issuer: root.subject,
      publicKey: keys.publicKey,
      signingKey: authority.privateKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
        new SubjectAlternativeNameExtension([{ type: 'dns', value: name }]),
      ],
    });
    const certFile = write(`${name}.pem`, certificate.toString('pem'));
    made.push([name, { certFile, keyFile: write(`${name}.key`, await pemOfKey(keys)), caFile }]);
  }
  return Object.fromEntries(made) as Record<Name, CertificateFiles>;
}
