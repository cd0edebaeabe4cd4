export {
  type ApproverDraft,
  type ApproverList,
  approverDraftSchema,
  approverListSchema,
  openApproverList,
  passkeyJwkSchema,
  signApproverList,
} from './approver-list.ts';
export { lengthPrefixed } from './bytes.ts';
export { type CallEnvelope, callDigest, canonicalEnvelope } from './call-digest.ts';
export {
  type EnrolmentFacts,
  formatInvitation,
  type Invitation,
  parseInvitation,
  proveEnrolment,
  type RotationFacts,
  rootFingerprint,
  signRotation,
  verifyEnrolment,
  verifyRotation,
} from './enrolment.ts';
export {
  type EnvelopeError,
  type EnvelopeErrorCode,
  type EnvelopeExpectation,
  MAX_ENVELOPE_BYTES,
  type OpenedEnvelope,
  openEnvelope,
  signEnvelope,
} from './envelope.ts';
export { ERROR_CODES, type ErrorCode } from './error-codes.ts';
export {
  AppendRefusal,
  AppendReply,
  AppendRequest,
  AuditClient,
  type AuditServer,
  AuditService,
  CallDraft,
  CallRecord,
  ClearFreezeRequest,
  ConfirmFreezeRequest,
  Document,
  DocumentDraft,
  DocumentVersion,
  EntryDraft,
  EntryReceipt,
  ExportChunk,
  ExportRequest,
  Freeze,
  FreezeConfirmation,
  FreezeState,
  GetCallRequest,
  GetCheckpointReply,
  GetCheckpointRequest,
  GetFreezeRequest,
  GetPayloadReply,
  GetPayloadRequest,
  GetReceiptRequest,
  GrantBounds,
  ListCallsReply,
  ListCallsRequest,
  ListDocumentsReply,
  ListDocumentsRequest,
  SetFreezeRequest,
} from './gen/countersign/v1/audit.ts';
export {
  CallCancel,
  CallEvent,
  CallPayload,
  CallReport,
  CallSubmit,
  Lease,
  SessionCommand,
  SessionOpen,
  ToolResult,
} from './gen/countersign/v1/call.ts';
export {
  ApplyRetentionReply,
  ApplyRetentionRequest,
  CustodyClient,
  type CustodyServer,
  CustodyService,
  EraseReply,
  EraseRequest,
  Hold,
  HoldList,
  ListHoldsRequest,
  ReleaseHoldRequest,
  SetHoldRequest,
} from './gen/countersign/v1/custody.ts';
export { EnvelopeKind, SignedEnvelope } from './gen/countersign/v1/envelope.ts';
export {
  AddCosignaturesReply,
  AddCosignaturesRequest,
  AskReply,
  AskRequest,
  CheckDatabaseReport,
  CheckDatabaseRequest,
  DatabaseProblem,
  EntryProof,
  EvidenceClient,
  type EvidenceServer,
  EvidenceService,
  ListCheckpointsReply,
  ListCheckpointsRequest,
  ListStreamsReply,
  ListStreamsRequest,
  ProveCallReply,
  ProveCallRequest,
  ProveConsistencyReply,
  ProveConsistencyRequest,
  ProveInclusionReply,
  ProveInclusionRequest,
  StoredCheckpoint,
  StreamStatus,
} from './gen/countersign/v1/evidence.ts';
export {
  GuardianClient,
  type GuardianServer,
  GuardianService,
  ReviewReply,
  ReviewRequest,
} from './gen/countersign/v1/guardian.ts';
export {
  type ApprovalTree,
  Beat,
  Control,
  FileChange,
  FileState,
  Heartbeat,
  InspectReply,
  InspectRequest,
  Obligations,
  Outcome,
  OutputChunk,
  OutputText,
  PasskeyAssertion,
  PathFact,
  PathOfEntry,
  PolicyFile,
  Precondition,
  ProofReply,
  ProofRequest,
  Receipt,
  StateReport,
  WorkOrder,
} from './gen/countersign/v1/work.ts';
export { type IJsonError, type JsonValue, parseIJson } from './i-json.ts';
export {
  createIdentity,
  type Identity,
  type IdentityFile,
  openIdentity,
  rawPublicKey,
  verifySignature,
} from './identity.ts';
export { KnownRoster, type KnownRosterOptions } from './known-roster.ts';
export { type OrderTerms, termsDigest } from './order-terms.ts';
export { endsProblem, MAX_OVERLAP_MINUTES, overlapSchema } from './overlap.ts';
export {
  type ApprovalStatement,
  approvalChallenge,
  approvalTreeChallenge,
  assertionsDigest,
  type IsIncluded,
  MAX_TREE_CALLS,
  statementBytes,
  verifyAssertion,
} from './passkey.ts';
export { signReceipt, verifyReceipt } from './receipt.ts';
export {
  liveKeys,
  openRoster,
  type Roster,
  type RosterDraft,
  type RosterMember,
  rosterDraftSchema,
  rosterKey,
  rosterSchema,
  signRoster,
} from './roster.ts';
export { openSealed, sealTo } from './seal.ts';
export { consumers, STREAMS, subjects } from './subjects.ts';
export { changesFile, namesPath, normaliseTool, runsCommand, type ToolName, toolSchema } from './tools.ts';
export { visibleBytes } from './visible-bytes.ts';
