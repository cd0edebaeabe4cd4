export {
  type Checkpoint,
  formatCheckpoint,
  formatSignedNote,
  fromBase64,
  type NoteError,
  type NoteSignature,
  type NoteVerifier,
  noteKeyId,
  parseCheckpoint,
  parseSignedNote,
  type SignedNote,
  toBase64,
  type VerifyEd25519,
  verifySignedNote,
} from './checkpoint.ts';
export { type Cosigned, cosignature, cosignedMessage, verifyCosignature, witnessKeyId } from './cosignature.ts';
export {
  type AuditEntry,
  canonicalEntryBytes,
  canonicalJson,
  ENTRY_TYPES,
  type EntryError,
  type EntryType,
  MAX_ENTRY_BYTES,
  parseEntry,
} from './entry.ts';
export { formatLogProof, type LogProof, parseLogProof, verifyLogProof } from './log-proof.ts';
export { checkStory, newStories, type Stories } from './story.ts';
export {
  consistencyRanges,
  decodeEntryBundle,
  decodeTile,
  encodeEntryBundle,
  entryBundlePath,
  type HashRange,
  inclusionRanges,
  proofOfRanges,
  rootRanges,
  TILE_WIDTH,
  type Tile,
  TileBuilder,
  type TileBytes,
  tilePath,
  tilesOf,
  tilesOfLevel,
} from './tiles.ts';
export {
  appendLeaf,
  type ConsistencyClaim,
  concatBytes,
  consistencyProof,
  emptyTree,
  equalBytes,
  type InclusionClaim,
  inclusionProof,
  leafHash,
  nodeHash,
  rootOf,
  rootOfLeaves,
  type Sha256,
  type TreeHead,
  verifyConsistency,
  verifyInclusion,
} from './tree.ts';
export { type Bundle, type DroppedLeaf, type Verification, verifyBundle } from './verify-bundle.ts';
export { type Ended, type EntryCheck, MAX_PROBLEMS, type Problem, Walk } from './walk.ts';
