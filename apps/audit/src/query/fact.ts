import type { AuditEntry } from '@countersign/merkle';

/** Query columns of one entry: copies of what its leaf says. */
export type Fact = {
  log_index: number;
  recorded_ms: number;
  /** Emitter's time minus recorded time. */
  offset_ms: number;
  type: string;
  call_id: string | null;
  session_id: string | null;
  agent: string | null;
  principal: string | null;
  host: string | null;
  tool: string | null;
  action: string | null;
  effect: string | null;
  decided_by: string | null;
  approver: string | null;
  policy: string | null;
  grant_id: string | null;
  /** Who read, was erased or acted, for entries without a call. */
  subject: string | null;
  state: string | null;
  /** Of an administrative act: its kind. */
  what: string | null;
  /** Of an answer: time since the request. */
  waited_ms: number | null;
  self_approved: boolean;
  differs: boolean;
};

/** A call as its entries so far tell it. */
export type Story = {
  call_id: string;
  received_index: number;
  received_ms: number;
  principal: string | null;
  agent: string | null;
  session_id: string | null;
  host: string | null;
  tool: string | null;
  action: string | null;
  args: string | null;
  requested_ms: number | null;
  effect: string | null;
  sent_ms: number | null;
  started_ms: number | null;
  closed_index: number | null;
  closed_state: string | null;
};

const MAX_TEXT = 256;

/** Text that a column and its index can hold: bounded, without NUL, well formed. Anything else than text is null. */
export function columnText(value: unknown): string | null {
  if (typeof value !== 'string' || value === '') return null;
  return value.slice(0, MAX_TEXT).replaceAll('\0', '\ufffd').toWellFormed();
}

const EFFECTS: ReadonlySet<string> = new Set(['decision', 'dispatch.sent', 'handed_over']);
/** Entries whose `state` is the scope that they are about. */
const CUSTODY: ReadonlySet<string> = new Set(['hold.set', 'hold.released', 'erasure.done', 'retention.dropped']);
const ENDED_GRANT = /^ent_(.+)_grant\.(?:created|ended)_1$/;

function grantOf(entry: AuditEntry): string | null {
  const named = entry.decision?.grant ?? entry.detail?.grant ?? entry.detail?.grant_id;
  if (typeof named === 'string') return columnText(named);
  return entry.type.startsWith('grant.') ? columnText(ENDED_GRANT.exec(entry.id)?.[1]) : null;
}

const SUBJECTS = ['reader', 'subject', 'by', 'principal'] as const;

function subjectOf(entry: AuditEntry): string | null {
  const found = SUBJECTS.map((name) => columnText(entry.detail?.[name])).find((text) => text !== null);
  return found ?? null;
}

function newStory(entry: AuditEntry, call: string): Story {
  return {
    call_id: call,
    received_index: entry.index,
    received_ms: entry.recorded_ms,
    principal: columnText(entry.agent?.on_behalf_of),
    agent: columnText(entry.agent?.id),
    session_id: columnText(entry.session),
    host: columnText(entry.host),
    tool: columnText(entry.tool?.name),
    action: columnText(entry.tool?.action),
    args: columnText(entry.tool?.args_commitment),
    requested_ms: null,
    effect: null,
    sent_ms: null,
    started_ms: null,
    closed_index: null,
    closed_state: null,
  };
}

/** The call's story with this entry added; `before` is undefined for its first entry. */
function tell(entry: AuditEntry, call: string, before: Story | undefined): Story {
  const story = { ...(before ?? newStory(entry, call)) };
  if (entry.type === 'approval.requested') story.requested_ms = entry.recorded_ms;
  if (entry.type === 'decision') story.effect = columnText(entry.decision?.effect);
  if (entry.type === 'dispatch.sent' || entry.type === 'handed_over') story.sent_ms = entry.recorded_ms;
  if (entry.type === 'exec.started') story.started_ms = entry.recorded_ms;
  if (entry.type === 'call.closed') {
    story.closed_index = entry.index;
    story.closed_state = columnText(entry.detail?.state);
  }
  return story;
}

function differs(entry: AuditEntry, story: Story | undefined): boolean {
  const executed = columnText(entry.detail?.executed);
  return executed !== null && story !== undefined && story.args !== null && executed !== story.args;
}

function isSelfApproved(entry: AuditEntry, approver: string | null, principal: string | null): boolean {
  return entry.type === 'decision' && entry.decision?.effect === 'allow' && approver !== null && approver === principal;
}

/** Facts of an entry, and the story of its call after it. */
export function factOf(entry: AuditEntry, before: Story | undefined): { fact: Fact; story: Story | undefined } {
  const story = entry.call === undefined ? undefined : tell(entry, entry.call, before);
  const principal = columnText(entry.agent?.on_behalf_of) ?? story?.principal ?? null;
  const approver = columnText(entry.approver?.subject);
  const isAnswer = entry.type === 'approval.answered' && story?.requested_ms != null;
  const fact: Fact = {
    log_index: entry.index,
    recorded_ms: entry.recorded_ms,
    offset_ms: entry.emitted_ms - entry.recorded_ms,
    type: entry.type,
    call_id: columnText(entry.call),
    session_id: columnText(entry.session) ?? story?.session_id ?? null,
    agent: columnText(entry.agent?.id) ?? story?.agent ?? null,
    principal,
    host: columnText(entry.host) ?? (EFFECTS.has(entry.type) ? (story?.host ?? null) : null),
    tool: columnText(entry.tool?.name) ?? story?.tool ?? null,
    action: columnText(entry.tool?.action) ?? story?.action ?? null,
    effect: columnText(entry.decision?.effect),
    decided_by: columnText(entry.decision?.decided_by),
    approver,
    policy: columnText(entry.decision?.policy_digest ?? entry.detail?.policy_digest),
    grant_id: grantOf(entry),
    subject: story && entry.type !== 'audit.read' ? null : subjectOf(entry),
    state: columnText(entry.detail?.state ?? (CUSTODY.has(entry.type) ? entry.detail?.scope : undefined)),
    what: entry.type === 'admin.changed' ? columnText(entry.detail?.what) : null,
    waited_ms: isAnswer ? entry.recorded_ms - Number(story.requested_ms) : null,
    self_approved: isSelfApproved(entry, approver, principal),
    differs: differs(entry, story),
  };
  return { fact, story };
}
