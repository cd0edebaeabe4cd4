import { type NoteVerifier, verifySignedNote } from './checkpoint.ts';
import { type AuditEntry, parseEntry } from './entry.ts';
import { checkStory, newStories } from './story.ts';
import { appendLeaf, emptyTree, equalBytes, leafHash, rootOf, type TreeHead } from './tree.ts';

/** Something wrong with a log. `index` is the entry at fault, or null for the log as a whole. */
export type Problem = { readonly index: number | null; readonly code: string; readonly message: string };

/** An exported log and whose signature it must carry. */
export type Bundle = NoteVerifier & {
  /** Exact leaf bytes in index order. */
  readonly leaves: readonly Uint8Array[];
  /** Signed note that covers every leaf. */
  readonly checkpoint: string;
  /** A signed note that the auditor kept from earlier. */
  readonly olderCheckpoint?: string;
};

export type Verification = {
  readonly problems: readonly Problem[];
  readonly entries: number;
  /** Calls that had not ended at the end of the log; not a problem. */
  readonly openCalls: readonly string[];
};

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

type Walk = {
  readonly problems: Problem[];
  readonly streams: Map<string, { index: number; seq: number; leaf: string }>;
  readonly ids: Set<string>;
  recordedMs: number;
};

function checkOrder(walk: Walk, entry: AuditEntry, index: number, leaf: string): void {
  const report = (code: string, message: string) => walk.problems.push({ index, code, message });
  if (entry.index !== index) report('index', `entry says index ${entry.index}`);
  if (entry.recorded_ms < walk.recordedMs) report('time', 'recorded before its predecessor');
  walk.recordedMs = Math.max(walk.recordedMs, entry.recorded_ms);
  if (walk.ids.has(entry.id)) report('duplicate_id', `id \`${entry.id}\` occurs twice`);
  walk.ids.add(entry.id);
  const last = walk.streams.get(entry.stream);
  if (entry.stream_seq !== (last ? last.seq + 1 : 0)) report('stream_seq', `gap in stream \`${entry.stream}\``);
  if (entry.prev !== (last?.leaf ?? null)) {
    const before = last ? `entry ${last.index}, the one before it in its stream` : 'the beginning of its stream';
    report('prev', `does not continue from ${before}: this entry, that one or one between them was changed`);
  }
  walk.streams.set(entry.stream, { index, seq: entry.stream_seq, leaf });
}

/** Walks the entries; returns the tree head and, where an older size is given, the head at that size. */
function walkLeaves(bundle: Bundle, walk: Walk, olderSize: number | undefined) {
  const stories = newStories();
  let head: TreeHead = emptyTree;
  let older: TreeHead | undefined = olderSize === 0 ? emptyTree : undefined;
  for (const [index, bytes] of bundle.leaves.entries()) {
    const leaf = leafHash(bundle.sha256, bytes);
    head = appendLeaf(bundle.sha256, head, leaf);
    if (head.size === olderSize) older = head;
    const parsed = parseEntry(bytes);
    if (!parsed.ok) {
      walk.problems.push({ index, code: parsed.error.code, message: parsed.error.message });
      continue;
    }
    checkOrder(walk, parsed.value, index, hex(leaf));
    for (const problem of checkStory(stories, parsed.value)) walk.problems.push({ index, ...problem });
  }
  return { head, older, stories };
}

/**
 * Verifies an exported log without a database: signature, size, root, every entry's form, order, chains, the story of each
 * call, and that a checkpoint kept from earlier is a prefix. An empty list of problems means clean.
 */
export function verifyBundle(bundle: Bundle): Verification {
  const walk: Walk = { problems: [], streams: new Map(), ids: new Set(), recordedMs: 0 };
  const newest = verifySignedNote(bundle.checkpoint, bundle);
  if (!newest.ok) walk.problems.push({ index: null, code: newest.error.code, message: newest.error.message });
  const kept = bundle.olderCheckpoint === undefined ? undefined : verifySignedNote(bundle.olderCheckpoint, bundle);
  if (kept && !kept.ok) walk.problems.push({ index: null, code: 'older_checkpoint', message: kept.error.message });
  const olderCheckpoint = kept?.ok ? kept.value : undefined;
  const { head, older, stories } = walkLeaves(bundle, walk, olderCheckpoint?.size);
  if (newest.ok && newest.value.size !== head.size) {
    walk.problems.push({
      index: null,
      code: 'size',
      message: `checkpoint covers ${newest.value.size} entries, found ${head.size}`,
    });
  }
  if (newest.ok && newest.value.size === head.size && !equalBytes(newest.value.root, rootOf(bundle.sha256, head))) {
    walk.problems.push({ index: null, code: 'root', message: 'entries do not give the root of the checkpoint' });
  }
  if (olderCheckpoint && (!older || !equalBytes(olderCheckpoint.root, rootOf(bundle.sha256, older)))) {
    walk.problems.push({
      index: null,
      code: 'inconsistent',
      message: 'log does not extend the checkpoint kept from earlier',
    });
  }
  const openCalls = [...stories].filter(([, story]) => !story.closed).map(([call]) => call);
  return { problems: walk.problems, entries: bundle.leaves.length, openCalls };
}
