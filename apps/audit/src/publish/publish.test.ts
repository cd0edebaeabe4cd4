import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { concatBytes, leafHash, rootOfLeaves, TileBuilder, tilePath, verifySignedNote } from '@countersign/merkle';
import { createIdentity, EvidenceClient, type ListStreamsReply, openIdentity } from '@countersign/protocol';
import { grpcClient } from '@countersign/service-kit';
import { startNats } from '@countersign/service-kit/embedded';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect, nkeyAuthenticator } from '@nats-io/transport-node';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { note, received } from '../../test/drafts.ts';
import { STORE_KEYS, startObjectStore } from '../../test/object-store.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';
import { logVerifier, sha256 } from '../proofs/cosignatures.ts';
import { folderPlace } from './folder-place.ts';

vi.setConfig({ testTimeout: 90_000 });
const suite = useAudit();
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const POLL = { timeout: 40_000, interval: 100 };
const never = new AbortController().signal;
const verifier = () => logVerifier('countersign/test', suite.identities.log);

async function store() {
  const running = await startObjectStore();
  ends.push(running.stop);
  const credentialsFile = path.join(suite.folder, 'store.json');
  writeFileSync(credentialsFile, JSON.stringify(STORE_KEYS), { mode: 0o600 });
  const to = { kind: 's3', url: running.url, credentialsFile };
  return { ...running, credentialsFile, publication: { name: 'store', everySeconds: 1, to } };
}
type Store = Awaited<ReturnType<typeof store>>;

async function stateOf(audit: AuditProcess, name: string) {
  const reply = await new Promise<ListStreamsReply>((resolve, reject) => {
    const client = grpcClient(EvidenceClient, `127.0.0.1:${audit.port}`);
    client.listStreams({}, (error, value) => {
      client.close();
      if (error) reject(error);
      else resolve(value);
    });
  });
  const found = reply.streams.find((stream) => stream.name === name);
  return { next: Number(found?.nextIndex), lag: Number(found?.lag), problem: found?.problem ?? '' };
}

/** Objects that the layout demands for a log of these leaves, by name. */
function layoutOf(leaves: readonly Uint8Array[]): Map<string, string> {
  const builder = new TileBuilder(sha256);
  const tiles = [...leaves.flatMap((leaf) => builder.push(leafHash(sha256, leaf))), ...builder.rest()];
  return new Map(tiles.map(({ tile, bytes }) => [tilePath(tile), Buffer.from(bytes).toString('hex')]));
}

const published = ({ objects }: Store) =>
  verifySignedNote(objects.get('/evidence/log/checkpoint')?.toString() ?? '', verifier());

async function expectPublished(held: Store, audit: AuditProcess, size: number): Promise<void> {
  await expect.poll(() => stateOf(audit, 'store'), POLL).toEqual({ next: size, lag: 0, problem: '' });
  const { leaves } = await audit.exportLog();
  const root = rootOfLeaves(
    sha256,
    leaves.map((leaf) => leafHash(sha256, leaf)),
  );
  expect(published(held)).toMatchObject({ ok: true, value: { size, root } });
  for (const [name, bytes] of layoutOf(leaves))
    expect([name, held.objects.get(`/evidence/log/${name}`)?.toString('hex')]).toEqual([name, bytes]);
}

const fill = async (audit: AuditProcess, from: number, count: number) => {
  const all = Array.from({ length: count }, (_, at) => audit.append(received(`call_${from + at}`)));
  expect((await Promise.all(all)).filter(({ refusal }) => refusal)).toEqual([]);
};

describe('publication to an object store', () => {
  test('holds every tile and the newest checkpoint, whatever the store does to requests, and never replaces a tile', async () => {
    const held = await store();
    const turns = ['error', 'cut', 'taken-then-error', 'forbidden'] as const;
    let turn = 0;
    held.misbehave((method) => {
      turn += 1;
      return method === 'PUT' && turn < 12 ? turns[turn % turns.length] : undefined;
    });
    const audit = await suite.start({ publications: [held.publication] });
    await fill(audit, 0, 600);
    await expectPublished(held, audit, 601);
    await audit.kill();
    const again = await suite.start({ publications: [held.publication] });
    await fill(again, 600, 10);
    await expectPublished(held, again, 611);
    expect(held.seen).toMatchObject({ unsigned: 0, overwritten: [] });
  });

  test('that hangs, is gone or refuses the credentials costs its own lag alone', async () => {
    const held = await store();
    held.misbehave(() => 'hang');
    const gone = { kind: 's3', url: 'http://127.0.0.1:9/bucket', credentialsFile: held.credentialsFile };
    const bad = path.join(suite.folder, 'bad.json');
    writeFileSync(bad, JSON.stringify({ ...STORE_KEYS, secretAccessKey: 'another' }), { mode: 0o600 });
    const publications = [
      held.publication,
      { name: 'gone', everySeconds: 1, to: gone },
      { name: 'nowhere', everySeconds: 1, to: { kind: 'folder', path: path.join(suite.folder, 'not-mounted') } },
    ];
    const audit = await suite.start({ publications });
    await fill(audit, 0, 50);
    for (const name of ['gone', 'nowhere'])
      await expect
        .poll(() => stateOf(audit, name), POLL)
        .toMatchObject({ next: 0, lag: 51, problem: expect.stringMatching(/./) });
    expect(await stateOf(audit, 'store')).toMatchObject({ next: 0, lag: 51 });
    expect(existsSync(path.join(suite.folder, 'not-mounted'))).toBe(false);
    await audit.kill();
    held.misbehave(() => undefined);
    const refused = { ...held.publication, to: { ...held.publication.to, credentialsFile: bad } };
    const again = await suite.start({ publications: [refused] });
    await expect
      .poll(() => stateOf(again, 'store'), POLL)
      .toMatchObject({ problem: 'the object store answered 403 to GET `checkpoint`' });
    writeFileSync(bad, JSON.stringify(STORE_KEYS), { mode: 0o600 });
    await expectPublished(held, again, 51);
  });

  test('names a tile that somebody changed there and replaces neither it nor the checkpoint', async () => {
    const held = await store();
    const audit = await suite.start({ publications: [held.publication] });
    await expectPublished(held, audit, 1);
    held.objects.set('/evidence/log/tile/0/000.p/3', Buffer.from('half'));
    await fill(audit, 0, 2);
    await expect
      .poll(() => stateOf(audit, 'store'), POLL)
      .toMatchObject({ next: 1, problem: expect.stringContaining('`tile/0/000.p/3` is there with other bytes') });
    expect(held.objects.get('/evidence/log/tile/0/000.p/3')?.toString()).toBe('half');
    expect(published(held)).toMatchObject({ ok: true, value: { size: 1 } });
  });

  test('shows a log that was rolled back, which does not start, even without its checkpoint file', async () => {
    const held = await store();
    const audit = await suite.start({ publications: [held.publication] });
    await fill(audit, 0, 5);
    await expectPublished(held, audit, 6);
    await audit.kill();
    const file = path.join(suite.folder, 'fresh-checkpoint');
    const changes = {
      publications: [held.publication],
      databaseUrl: await suite.anotherDatabase(),
      checkpointFile: file,
    };
    expect(await (await suite.spawn(changes)).ended).toBe(1);
    writeFileSync(`${file}.accept-loss`, JSON.stringify({ size: 6, subject: 'ann', reason: 'restored' }));
    const accepted = await suite.start(changes);
    await expect
      .poll(() => stateOf(accepted, 'store'), POLL)
      .toMatchObject({ next: 0, problem: expect.stringContaining('it was rolled back') });
    expect(published(held)).toMatchObject({ ok: true, value: { size: 6 } });
  });
});

test('a subject of another broker gets every checkpoint once its stream is there', async () => {
  const user = await createIdentity('publisher', 'publisher');
  const seedFile = path.join(suite.folder, 'publisher.seed');
  const { seed } = await openIdentity(user);
  writeFileSync(seedFile, seed, { mode: 0o600 });
  const broker = await startNats({
    dataDir: path.join(suite.folder, 'outside-nats'),
    configText: `authorization { users: [ { nkey: ${user.publicKey} } ] }`,
  });
  ends.push(broker.stop);
  const to = { kind: 'nats', url: broker.url, subject: 'logs.test', credentialsFile: seedFile };
  const audit = await suite.start({ publications: [{ name: 'broker', everySeconds: 1, to }] });
  await expect
    .poll(() => stateOf(audit, 'broker'), POLL)
    .toMatchObject({ next: 0, problem: expect.stringMatching(/./) });
  const nats = await connect({ servers: broker.url, authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)) });
  ends.push(() => nats.close());
  const manager = await jetstreamManager(nats);
  await manager.streams.add({ name: 'LOGS', subjects: ['logs.>'] });
  const sizeThere = async () => {
    const message = await manager.streams.getMessage('LOGS', { last_by_subj: 'logs.test' });
    const read = verifySignedNote(message?.string() ?? '', verifier());
    return read.ok ? read.value.size : read.error.code;
  };
  await expect.poll(sizeThere, POLL).toBe(1);
  await audit.append({ entries: [note('a', 'admin.changed', 'ent_1')] });
  await expect.poll(sizeThere, POLL).toBe(2);
  expect((await manager.streams.info('LOGS')).state.messages).toBe(2);
});

describe('a folder', () => {
  test('takes a file whole or not at all and never other bytes under the same name', async () => {
    const folder = path.join(suite.folder, 'mounted');
    mkdirSync(folder);
    const place = folderPlace(folder);
    const bytes = concatBytes(Buffer.from('one'));
    await place.keep('tile/0/000', bytes, never);
    await place.keep('tile/0/000', bytes, never);
    await expect(place.keep('tile/0/000', Buffer.from('two'), never)).rejects.toThrow(/other bytes/);
    expect(await place.checkpoint(never)).toBeUndefined();
    await place.replaceCheckpoint('a', never);
    const second = folderPlace(folder);
    expect(await second.checkpoint(never)).toBe('a');
    await second.replaceCheckpoint('b', never);
    await expect(place.replaceCheckpoint('c', never)).rejects.toThrow(/came between/);
    rmSync(folder, { recursive: true });
    await expect(place.keep('tile/0/001', bytes, never)).rejects.toThrow(/is not there/);
  });
});
