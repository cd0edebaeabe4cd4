import { AppendRequest } from '@countersign/protocol';
import { expect, test } from 'vitest';
import { note } from '../../test/drafts.ts';
import { useSequencer } from '../../test/use-sequencer.ts';
import { adoptDocuments } from './adopt-documents.ts';
import { documentDigest } from './document-digest.ts';

const bench = useSequencer();

test('the documents of a log from before entries committed to them are committed to once, page by page', async () => {
  await bench.append({ entries: [note('audit', 'key.added', 'ent_0')] });
  await bench.owner.query(
    "insert into audit.document select 'token', 'tok_' || n, 3, jsonb_build_object('n', n) from generate_series(1, 150) n",
  );
  const adopt = () => adoptDocuments(bench.sequencer, bench.owner, 1_000);
  await adopt();
  const { rows } = await bench.owner.query<{ leaf: Buffer }>('select leaf from audit.entry where log_index > 0');
  const adopted = rows.flatMap(
    ({ leaf }) => (JSON.parse(leaf.toString()) as { detail: { documents: object[] } }).detail.documents,
  );
  expect(adopted).toHaveLength(150);
  expect(adopted).toContainEqual({ kind: 'token', key: 'tok_7', version: 3, sha256: documentDigest({ n: 7 }) });
  const size = bench.sequencer.head.size;
  await adopt();
  expect(bench.sequencer.head.size).toBe(size);
});

test('a sender cannot say what an entry commits to, and every document that it changes is committed to', async () => {
  const forged = await bench.append({ entries: [note('a', 'admin.changed', 'ent_1', { detail: { documents: [] } })] });
  expect(forged.refusal?.code).toBe('countersign.audit.invalid');
  const value = new TextEncoder().encode('{"b": 1.50, "a": "\\u00e9"}');
  await bench.sequencer.append(
    AppendRequest.fromPartial({
      entries: [note('a', 'admin.changed', 'ent_2', { detail: { what: 'x' } }), note('a', 'admin.changed', 'ent_3')],
      documents: [{ kind: 'person', key: 'ann', value, expectedVersion: 0n }],
    }),
  );
  const { rows } = await bench.owner.query<{ leaf: Buffer; value: unknown }>(
    "select leaf, (select value from audit.document where key = 'ann') as value from audit.entry order by log_index",
  );
  const [first, second] = rows.map(({ leaf }) => (JSON.parse(leaf.toString()) as { detail?: object }).detail);
  const sha256 = documentDigest(rows[0]?.value);
  expect(first).toEqual({ what: 'x', documents: [{ kind: 'person', key: 'ann', version: 1, sha256 }] });
  expect(second).toBeUndefined();
});
