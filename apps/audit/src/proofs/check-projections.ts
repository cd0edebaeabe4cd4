import type { AuditEntry, Problem } from '@countersign/merkle';
import { CallRecord } from '@countersign/protocol';
import type pg from 'pg';
import { payloadKeyId } from '../payload/payload-keys.ts';
import type { DecisionEntry } from '../sequencer/call-memory.ts';
import { type CommittedDocument, committedDocuments, documentDigest } from '../sequencer/document-digest.ts';
import { statesAfter } from '../sequencer/entry-rules.ts';

const PAGE = 1_000;
/** Rows without an entry that are named; more of them are one message. */
const MAX_STRAY = 100;

type Told = { readonly entry: AuditEntry; readonly leafHash: string };
type CallRow = { call_id: string; state: string; record: Buffer; decision_entry: DecisionEntry | null };
type PayloadRow = { call_id: string; key_id: string; payload: string; result: string };
type Report = (problem: Problem) => void;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** Facts of a call's record that are not what its first entry says; a fact that the entry does not tell is not compared. */
function wrongOrigin(row: CallRow, entry: AuditEntry): string[] {
  const record = CallRecord.decode(row.record);
  const told: [string, string, unknown][] = [
    ['call id', record.callId, row.call_id],
    ['state', record.state, row.state],
    ['agent', record.agent, entry.agent?.id],
    ['session', record.sessionId, entry.session],
    ['host', record.host, entry.host],
    ['tool', record.tool, entry.tool?.name],
    ['principal', record.principal, entry.agent?.on_behalf_of],
    ['call digest', hex(record.callDigest), entry.tool?.args_commitment],
  ];
  return told.flatMap(([name, stored, said]) => (isText(said) && stored !== said ? [name] : []));
}

function wrongDecision({ record, decision_entry: kept }: CallRow, { entry, leafHash }: Told): string[] {
  const decided = CallRecord.decode(record).decidedBy;
  const by = entry.decision?.decided_by;
  const isKept = kept?.id === entry.id && kept.index === entry.index && kept.leafHash === leafHash;
  return [...(isKept ? [] : ['decision entry']), ...(isText(by) && decided !== by ? ['decided by'] : [])];
}

/**
 * Compares what is kept beside the log, and believed, with what the entries commit to: payloads, records and states of calls,
 * documents. Takes entries in order.
 */
export class ProjectionCheck {
  readonly #client: pg.PoolClient;
  readonly #report: Report;
  readonly #documents = new Map<string, CommittedDocument & { readonly index: number }>();
  /** Where each call that has not ended stands. */
  readonly #open = new Map<string, { readonly index: number; readonly states: readonly string[] }>();

  constructor(client: pg.PoolClient, report: Report) {
    this.#client = client;
    this.#report = report;
  }

  async page(told: readonly Told[]): Promise<void> {
    for (const { entry } of told) {
      for (const document of committedDocuments(entry.detail))
        this.#documents.set(`${document.kind}/${document.key}`, { ...document, index: entry.index });
      this.#follow(entry);
    }
    const calls = [...new Set(told.flatMap(({ entry }) => (entry.call === undefined ? [] : [entry.call])))];
    await this.#checkPayloads(told, calls);
    await this.#checkRecords(told, calls);
  }

  async end(size: number): Promise<void> {
    await this.#checkDocuments();
    await this.#checkOpen();
    await this.#checkStray(size);
  }

  #tell(index: number | null, code: string, message: string): void {
    this.#report({ index, code, message });
  }

  #follow({ call, type, index, decision }: AuditEntry): void {
    if (call === undefined) return;
    const states = statesAfter(type, decision?.effect);
    if (type === 'call.closed') this.#open.delete(call);
    else if (states.length > 0) this.#open.set(call, { index, states });
  }

  async #checkPayloads(told: readonly Told[], calls: readonly string[]): Promise<void> {
    const committing = told.filter(
      ({ entry }) => isText(entry.tool?.payload_digest) || isText(entry.tool?.result_digest),
    );
    if (committing.length === 0) return;
    const { rows } = await this.#client.query<PayloadRow>(
      `select call_id, key_id, encode(sha256(sealed_payload), 'hex') as payload, encode(sha256(sealed_result), 'hex') as result
       from audit.payload where call_id = any($1)`,
      [calls],
    );
    const rowOf = new Map(rows.map((row) => [row.call_id, row]));
    for (const { entry } of committing) {
      const row = rowOf.get(entry.call ?? '');
      const { payload_digest: payload, result_digest: result } = entry.tool ?? {};
      const isKept =
        (isText(payload) ? row?.payload === payload : true) && (isText(result) ? row?.result === result : true);
      if (!isKept) this.#tell(entry.index, 'payload', 'the ciphertext is not the one that the entry commits to');
      else if (isText(entry.session) && row?.key_id !== payloadKeyId(entry.session))
        this.#tell(entry.index, 'payload', "the payload names another key than its session's");
    }
  }

  async #checkRecords(told: readonly Told[], calls: readonly string[]): Promise<void> {
    const { rows } = await this.#client.query<CallRow>(
      'select call_id, state, record, decision_entry from audit.call where call_id = any($1)',
      [calls],
    );
    const rowOf = new Map(rows.map((row) => [row.call_id, row]));
    for (const one of told) {
      const { entry } = one;
      if (entry.type !== 'call.received' && entry.type !== 'decision') continue;
      const row = rowOf.get(entry.call ?? '');
      if (!row) {
        this.#tell(entry.index, 'call_record', 'the call has no row');
        continue;
      }
      const wrong = entry.type === 'decision' ? wrongDecision(row, one) : wrongOrigin(row, entry);
      if (wrong.length > 0)
        this.#tell(entry.index, 'call_record', `the call's record is not what the entry says: ${wrong.join(', ')}`);
    }
  }

  async #checkDocuments(): Promise<void> {
    for (let kind = '', key = ''; ; ) {
      const { rows } = await this.#client.query<{ kind: string; key: string; version: string; value: unknown }>(
        `select kind, key, version, value from audit.document where (kind, key) > ($1, $2) order by kind, key limit ${PAGE}`,
        [kind, key],
      );
      const last = rows.at(-1);
      if (!last) break;
      [kind, key] = [last.kind, last.key];
      for (const row of rows) {
        const name = `${row.kind}/${row.key}`;
        const told = this.#documents.get(name);
        this.#documents.delete(name);
        const isTold = told && Number(row.version) === told.version && documentDigest(row.value) === told.sha256;
        if (!isTold)
          this.#tell(told?.index ?? null, 'document', `document \`${name}\` is not what an entry commits to`);
      }
    }
    for (const [name, { index }] of this.#documents) this.#tell(index, 'document', `document \`${name}\` is missing`);
  }

  async #checkOpen(): Promise<void> {
    const open = [...this.#open];
    for (let at = 0; at < open.length; at += PAGE) {
      const page = open.slice(at, at + PAGE);
      const { rows } = await this.#client.query<{ call_id: string; state: string }>(
        'select call_id, state from audit.call where call_id = any($1)',
        [page.map(([call]) => call)],
      );
      const stateOf = new Map(rows.map((row) => [row.call_id, row.state]));
      for (const [call, { index, states }] of page) {
        const state = stateOf.get(call) ?? 'missing';
        if (!states.includes(state)) this.#tell(index, 'call_state', `call is \`${state}\` in its table`);
      }
    }
  }

  /** Rows that no entry speaks for. */
  async #checkStray(size: number): Promise<void> {
    const stray: [string, string][] = [
      [
        'call',
        `select call_id as name from audit.call c where not exists (select from audit.entry e where e.call_id = c.call_id)`,
      ],
      [
        'payload',
        `select call_id as name from audit.payload p where not exists (select from audit.call c where c.call_id = p.call_id)`,
      ],
      [
        'story',
        `select call_id as name from audit.story s where not exists (select from audit.entry e where e.call_id = s.call_id)`,
      ],
      ['key', `select entry_id as name from audit.entry_key where log_index >= ${size}`],
      ['fact', `select log_index::text as name from audit.fact where log_index >= ${size}`],
    ];
    for (const [table, statement] of stray) {
      const { rows } = await this.#client.query<{ name: string }>(`${statement} limit ${MAX_STRAY}`);
      for (const { name } of rows) this.#tell(null, 'stray', `${table} row \`${name}\` has no entry`);
    }
  }
}
