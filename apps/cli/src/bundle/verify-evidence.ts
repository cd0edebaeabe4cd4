import { Buffer } from 'node:buffer';
import {
  type AuditEntry,
  checkStory,
  leafHash,
  newStories,
  type Problem,
  parseEntry,
  verifyInclusion,
  verifySignedNote,
} from '@countersign/merkle';
import { callDigest, verifyReceipt } from '@countersign/protocol';
import type { Evidence } from './evidence.ts';
import { type LogKey, sha256, verifierOf } from './log-crypto.ts';

export type EvidenceVerification = {
  readonly problems: readonly Problem[];
  readonly entries: readonly AuditEntry[];
  /** False while the call has no end. */
  readonly isClosed: boolean;
};

type Read = { readonly entry: AuditEntry; readonly leaf: string };
type Report = (index: number | null, code: string, message: string) => void;

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function readEntries(evidence: Evidence, log: LogKey, report: Report): Read[] {
  const note = verifySignedNote(evidence.checkpoint, verifierOf(log));
  if (!note.ok) report(null, note.error.code, note.error.message);
  const read: Read[] = [];
  for (const { index, leaf, proof } of evidence.entries) {
    const hash = leafHash(sha256, leaf);
    if (note.ok && !verifyInclusion(sha256, { leaf: hash, index, proof, size: note.value.size, root: note.value.root }))
      report(index, 'not_included', 'entry is not at this index of the signed tree');
    const parsed = parseEntry(leaf);
    if (!parsed.ok) report(index, parsed.error.code, parsed.error.message);
    else if (parsed.value.index !== index) report(index, 'index', `entry says index ${parsed.value.index}`);
    if (parsed.ok) read.push({ entry: parsed.value, leaf: hexOf(hash) });
  }
  return read;
}

/** A call's stream is whole from its beginning: no entry of it was left out before the last one. */
function checkChain(call: string, read: readonly Read[], report: Report): void {
  const stories = newStories();
  let last: Read | undefined;
  let before: AuditEntry | undefined;
  for (const { entry, leaf } of read) {
    if (entry.call !== call) report(entry.index, 'other_call', 'entry is about another call');
    if (before && entry.index <= before.index) report(entry.index, 'index', 'entries are not in the order of the log');
    if (before && entry.recorded_ms < before.recorded_ms)
      report(entry.index, 'time', 'recorded before its predecessor');
    before = entry;
    for (const { code, message } of checkStory(stories, entry)) report(entry.index, code, message);
    if (entry.stream !== call) continue;
    if (entry.stream_seq !== (last ? last.entry.stream_seq + 1 : 0))
      report(entry.index, 'stream_seq', "an entry of the call's stream is missing before this one");
    else if (entry.prev !== (last?.leaf ?? null))
      report(entry.index, 'prev', 'does not continue from the entry before it');
    last = { entry, leaf };
  }
}

function checkView(evidence: Evidence, entries: readonly AuditEntry[], report: Report): void {
  const digest = evidence.view && hexOf(sha256(evidence.view));
  for (const { index, approver } of entries) {
    const shown = approver?.shown;
    if (typeof shown !== 'string' || shown === '' || shown === digest) continue;
    report(
      index,
      'view_differs',
      digest ? 'approver was shown another view' : 'the view that the approver saw is missing',
    );
  }
}

function checkArguments(evidence: Evidence, entries: readonly AuditEntry[], report: Report): void {
  const received = entries.find(({ type }) => type === 'call.received');
  const commitment = received?.tool?.args_commitment;
  const { arguments: args, salt, envelope } = evidence;
  if (args && (!salt || !envelope || salt.length !== 32 || hexOf(callDigest(salt, args, envelope)) !== commitment))
    report(received?.index ?? null, 'arguments_differ', 'arguments are not those that the entry commits to');
}

/** Keys of the audit service that the root has vouched for, and those of them that were revoked. */
export type AuditKeys = { readonly known: readonly string[]; readonly revoked: readonly string[] };

function checkReceipt(evidence: Evidence, read: readonly Read[], keys: AuditKeys | undefined, report: Report): void {
  const { receipt } = evidence;
  const sent = read.find(({ entry }) => entry.type === 'dispatch.sent');
  if (!receipt) {
    if (sent) report(sent.entry.index, 'receipt', 'receipt of the dispatch is missing');
    return;
  }
  const decision = read.find(({ entry }) => entry.type === 'decision');
  const { index, ...facts } = receipt;
  const isOwn =
    decision !== undefined &&
    facts.callId === evidence.call &&
    facts.entryId === decision.entry.id &&
    index === BigInt(decision.entry.index) &&
    hexOf(facts.leafHash) === decision.leaf;
  if (!isOwn) report(decision?.entry.index ?? null, 'receipt', 'receipt is not of this decision');
  const signed = { ...facts, logIndex: index };
  const at = decision?.entry.index ?? null;
  if ((keys && !keys.known.includes(receipt.issuer)) || !verifyReceipt(signed, receipt.issuer))
    report(at, 'receipt', 'signature of the receipt does not verify');
  else if (keys?.revoked.includes(receipt.issuer))
    report(at, 'receipt', 'the key that signed the receipt was revoked; ask for the evidence again');
}

/**
 * Verifies evidence of one call without any service.
 * @param auditKeys keys of the audit service (`U…`), when the verifier knows them; else the receipt is held to the key it names.
 */
export function verifyEvidence(evidence: Evidence, log: LogKey, auditKeys?: AuditKeys): EvidenceVerification {
  const problems: Problem[] = [];
  const report: Report = (index, code, message) => problems.push({ index, code, message });
  const read = readEntries(evidence, log, report);
  const entries = read.map(({ entry }) => entry);
  checkChain(evidence.call, read, report);
  checkView(evidence, entries, report);
  checkArguments(evidence, entries, report);
  checkReceipt(evidence, read, auditKeys, report);
  problems.sort((a, b) => (a.index ?? -1) - (b.index ?? -1));
  return { problems, entries, isClosed: entries.some(({ type }) => type === 'call.closed') };
}
