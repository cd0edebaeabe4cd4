import { type Checkpoint, type NoteVerifier, verifySignedNote } from './checkpoint.ts';
import { equalBytes, leafHash } from './tree.ts';
import { type Ended, type EntryCheck, type Problem, Walk } from './walk.ts';

/** An entry that retention dropped: only its hash is left. Those are the first of a log. */
export type DroppedLeaf = { readonly leafHash: Uint8Array };

/** An exported log and whose signature it must carry. */
export type Bundle = NoteVerifier & {
  /** Exact leaf bytes in index order; read once, so that a log need not fit into memory. */
  readonly leaves: Iterable<Uint8Array | DroppedLeaf>;
  /** Signed note that covers every leaf. */
  readonly checkpoint: string;
  /** A signed note that the auditor kept from earlier. */
  readonly olderCheckpoint?: string;
  /** More signed notes that came with the export; they narrow down where a fault is. */
  readonly checkpoints?: readonly string[];
  /** Hash of a leaf as the export's tiles have it. */
  readonly hashInTiles?: (index: number) => Uint8Array | undefined;
  /** Told each leaf hash in order. */
  readonly onLeaf?: (leaf: Uint8Array) => void;
  /** A check of the caller's own, told each readable entry in order. */
  readonly onEntry?: EntryCheck;
};

export type Verification = {
  readonly problems: readonly Problem[];
  /** Problems beyond those listed. */
  readonly moreProblems: number;
  readonly entries: number;
  /** Root over the entries that were read. */
  readonly root: Uint8Array;
  /** Calls that had not ended at the end of the log; not a problem. */
  readonly openCalls: readonly string[];
  /** What the log says was erased or dropped; not a problem. */
  readonly ended: readonly Ended[];
};

type Kept = { readonly checkpoint: Checkpoint; readonly isOlder: boolean };

/** Checkpoints by size that the entries must agree with; what is no checkpoint of this log is a problem. */
function readKept(bundle: Bundle, walk: Walk): Kept[] {
  const kept: Kept[] = [];
  const read = (note: string, isOlder: boolean, code: string) => {
    const checked = verifySignedNote(note, bundle);
    if (checked.ok) kept.push({ checkpoint: checked.value, isOlder });
    else walk.report({ index: null, code, message: checked.error.message });
  };
  if (bundle.olderCheckpoint !== undefined) read(bundle.olderCheckpoint, true, 'older_checkpoint');
  for (const note of bundle.checkpoints ?? []) read(note, false, 'kept_checkpoint');
  return kept.sort((a, b) => a.checkpoint.size - b.checkpoint.size);
}

/** Reads every entry and returns the kept checkpoints that they do not give, with the size up to which all is vouched for. */
function walkLeaves(bundle: Bundle, walk: Walk, kept: readonly Kept[]) {
  let next = 0;
  let good = 0;
  const broken: Kept[] = [];
  const compare = () => {
    for (let found = kept[next]; found && found.checkpoint.size === walk.size; found = kept[next]) {
      next += 1;
      if (!equalBytes(found.checkpoint.root, walk.root())) broken.push(found);
      else if (broken.length === 0) good = walk.size;
    }
  };
  compare();
  for (const bytes of bundle.leaves) {
    const leaf = bytes instanceof Uint8Array ? leafHash(bundle.sha256, bytes) : bytes.leafHash;
    bundle.onLeaf?.(leaf);
    if (bytes instanceof Uint8Array) walk.take(bytes, leaf, bundle.hashInTiles?.(walk.size));
    else walk.skip(leaf);
    compare();
  }
  return { good, broken: [...broken, ...kept.slice(next)] };
}

function checkNewest(bundle: Bundle, walk: Walk, good: number): void {
  const newest = verifySignedNote(bundle.checkpoint, bundle);
  if (!newest.ok) {
    walk.report({ index: null, code: newest.error.code, message: newest.error.message });
    return;
  }
  const { size, root } = newest.value;
  if (size !== walk.size) {
    const message = `checkpoint covers ${size} entries, found ${walk.size}`;
    walk.report({ index: Math.min(size, walk.size), until: Math.max(size, walk.size), code: 'size', message });
  } else if (!equalBytes(root, walk.root())) {
    const message = 'entries do not give the root of the checkpoint';
    walk.report({ index: good, until: walk.size, code: 'root', message });
  }
}

const byIndex = (a: Problem, b: Problem): number => (a.index ?? -1) - (b.index ?? -1);

/**
 * Verifies an exported log without a database: signature, size, root, every entry's form, order, chains, the story of each
 * call, and that every checkpoint kept from earlier is a prefix. An empty list of problems means clean.
 */
export function verifyBundle(bundle: Bundle): Verification {
  const walk = new Walk(bundle.sha256, bundle.onEntry);
  const kept = readKept(bundle, walk);
  const { good, broken } = walkLeaves(bundle, walk, kept);
  checkNewest(bundle, walk, good);
  walk.checkDropped();
  for (const { checkpoint, isOlder } of broken) {
    const message = `log does not extend the checkpoint of size ${checkpoint.size} ${isOlder ? 'kept from earlier' : 'that came with it'}`;
    const until = Math.max(checkpoint.size, good);
    walk.report({ index: checkpoint.size > walk.size ? walk.size : good, until, code: 'inconsistent', message });
  }
  const openCalls = [...walk.stories].filter(([, story]) => !story.closed).map(([call]) => call);
  const problems = walk.problems.sort(byIndex);
  const { ended } = walk;
  return { problems, moreProblems: walk.uncounted, entries: walk.size, root: walk.root(), openCalls, ended };
}
