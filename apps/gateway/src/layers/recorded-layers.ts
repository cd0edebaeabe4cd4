import { err, ok, type Result } from '@countersign/kernel';
import { type DocumentDraft, ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import type { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';
import { json } from '../record/entries.ts';
import type { Session } from '../record/sessions.ts';
import type { FileLayer } from './layer-file.ts';
import { type StoredRule, storedRuleSchema } from './stored-rule.ts';
import { type Trust, trustId, trustSchema } from './trust.ts';

const EPOCH = { kind: 'rule', key: 'epoch' } as const;
/** Rules and trusts that hold at the same time; old ones are revoked to make room. */
const MAX_LIVE = 2_000;

export type LayerChange = {
  readonly type: `trust.${'given' | 'revoked' | 'lapsed'}` | `rule.${'proposed' | 'published' | 'revoked'}`;
  readonly detail: object;
  readonly trusts?: readonly Trust[];
  readonly rules?: readonly StoredRule[];
};
export type ChangeProblem = { readonly code: ErrorCode; readonly message: string };

type Versioned<T> = { readonly value: T; readonly version: bigint };

/**
 * What people decided about layers, kept in the record: trusted files and folders, and rules that they saved. INVARIANT: each
 * change raises one epoch in the same commit; a decision names the epoch that it stands on, and the record refuses an older one.
 */
export class RecordedLayers {
  readonly #audit: AuditLog;
  readonly #now: () => number;
  #version = 0n;
  #trusts = new Map<string, Versioned<Trust>>();
  #rules = new Map<string, Versioned<StoredRule>>();

  private constructor(audit: AuditLog, now: () => number) {
    this.#audit = audit;
    this.#now = now;
  }

  /** With everything that is recorded now. */
  static async open(audit: AuditLog, now: () => number): Promise<RecordedLayers> {
    const layers = new RecordedLayers(audit, now);
    await layers.refresh();
    return layers;
  }

  /** What a decision stood on, for the append that records it. */
  basis(): { kind: string; key: string; version: bigint } {
    return { ...EPOCH, version: this.#version };
  }

  /** Takes over what the record has; true when it differs from what was known. */
  async refresh(): Promise<boolean> {
    const [epoch] = await this.#audit.listDocuments(EPOCH.kind, EPOCH.key);
    const version = epoch?.version ?? 0n;
    if (version <= this.#version) return false;
    const [trusts, rules] = await Promise.all([this.#read('trust', trustSchema), this.#read('rule', storedRuleSchema)]);
    if (version <= this.#version) return false;
    this.#trusts = trusts;
    this.#rules = rules;
    this.#version = version;
    return true;
  }

  /** The trust of a file, if it holds. */
  fileTrust(host: string, layer: FileLayer, path: string): Trust | undefined {
    const found = this.#trusts.get(trustId(['file', host, layer, path]))?.value;
    return found?.state === 'trusted' ? found : undefined;
  }

  /** Folders beyond its enrolment in which an agent may work on a host. */
  folders(agent: string, host: string): string[] {
    return this.trusts()
      .filter((one) => one.what === 'folder' && one.state === 'trusted' && one.agent === agent && one.host === host)
      .map(({ path }) => path);
  }

  /** Every trust that was ever given, newest first. */
  trusts(): Trust[] {
    return [...this.#trusts.values()].map(({ value }) => value).sort((a, b) => b.at_ms - a.at_ms);
  }

  /** Every rule that was ever saved, newest first. */
  rules(): StoredRule[] {
    return [...this.#rules.values()].map(({ value }) => value).sort((a, b) => b.at_ms - a.at_ms);
  }

  /** The saved rules that hold for a session now. */
  rulesOf(session: Session): StoredRule[] {
    const nowMs = this.#now();
    return [...this.#rules.values()]
      .map(({ value }) => value)
      .filter(({ state, expires_ms }) => state === 'active' && (expires_ms === null || nowMs < expires_ms))
      .filter((rule) => reaches(rule, session));
  }

  /** The parts of an append that make a change; it is refused when another change came in between. */
  draft({ type, detail, trusts = [], rules = [] }: LayerChange) {
    const next = this.#version + 1n;
    const document = (kind: 'trust' | 'rule', value: Trust | StoredRule): DocumentDraft => {
      const known = kind === 'trust' ? this.#trusts.get(value.id) : this.#rules.get(value.id);
      return { kind, key: value.id, value: json(value), expectedVersion: known?.version ?? 0n };
    };
    return {
      entries: [
        {
          id: `ent_layers_${next}`,
          type: 'admin.changed',
          stream: 'admin',
          emittedMs: BigInt(this.#now()),
          body: json({ detail: { what: type, ...detail } }),
        },
      ],
      documents: [
        ...trusts.map((value) => document('trust', value)),
        ...rules.map((value) => document('rule', value)),
        { ...EPOCH, value: json({ epoch: Number(next) }), expectedVersion: this.#version },
      ],
    };
  }

  /** Why nothing more can be kept; undefined when it can. */
  full(): ChangeProblem | undefined {
    const live =
      this.trusts().filter(({ state }) => state === 'trusted').length +
      this.rules().filter(({ state }) => state !== 'revoked').length;
    const message = `${MAX_LIVE} rules and trusts hold already; revoke some`;
    return live < MAX_LIVE ? undefined : { code: ERROR_CODES.notOffered, message };
  }

  /** Records a change and takes it over. */
  async change(change: LayerChange): Promise<Result<undefined, ChangeProblem>> {
    const reply = await this.#audit.append(this.draft(change));
    await this.refresh();
    if (!reply.refusal) return ok(undefined);
    const message = 'rules or trusts changed at the same moment; look again';
    return err({ code: ERROR_CODES.changedMeanwhile, message });
  }

  async #read<T>(kind: string, schema: z.ZodType<T>): Promise<Map<string, Versioned<T>>> {
    const found = new Map<string, Versioned<T>>();
    for (const { key, version, value } of await this.#audit.listDocuments(kind)) {
      const parsed = schema.safeParse(JSON.parse(new TextDecoder().decode(value)));
      if (parsed.success) found.set(key, { value: parsed.data, version });
    }
    return found;
  }
}

/** INVARIANT: a saved rule reaches no session beyond what the person was shown. */
function reaches(rule: StoredRule, session: Session): boolean {
  if (rule.layer === 'session') return rule.session === session.id;
  if (rule.layer === 'user') return rule.principal === session.principal;
  if (rule.host !== session.host || rule.project !== session.project) return false;
  return rule.layer === 'project' || (rule.agent === session.agent && rule.principal === session.principal);
}
