import type { DocumentDraft } from '@countersign/protocol';
import { z } from 'zod';
import type { AuditLog } from './audit-log.ts';
import { json } from './entries.ts';

/** Versions of permission files that a session keeps to; with more of them every call asks. */
export const MAX_HELD = 24;

const sessionSchema = z.object({
  id: z.string(),
  agent: z.string(),
  principal: z.string(),
  host: z.string(),
  project: z.string(),
  permission_mode: z.enum(['strict', 'dev', 'networked', 'yolo']),
  approval_mode: z.enum(['manual', 'auto', 'full_access']),
  eternal: z.boolean(),
  model: z.object({ provider: z.string(), name: z.string() }),
  request_text: z.string(),
  /** Person who stated the request at the desk; absent: the agent did. */
  request_by: z.string().optional(),
  /** The turn waits for a person after repeated denials; names the last denied call. */
  paused: z.object({ call: z.string(), at_ms: z.number() }).optional(),
  state: z.enum(['open', 'closed']),
  labels: z.record(z.string(), z.string()),
  /** Session that issued the token this one was opened with; absent for a root. */
  parent: z.string().optional(),
  /** Hex SHA-256 of child tokens that nobody has used yet, with their ends. */
  child_tokens: z
    .array(z.object({ sha256: z.string(), until_ms: z.number() }))
    .max(100)
    .optional(),
  /** Permission files that took something away in this session: it stays so until an operator confirms its removal. */
  held_files: z
    .array(z.object({ layer: z.enum(['user', 'project', 'local']), path: z.string(), digest: z.string() }))
    .max(MAX_HELD)
    .optional(),
});

export type Session = z.infer<typeof sessionSchema>;
export type VersionedSession = { readonly session: Session; readonly version: bigint };

/** A session with its ancestors, from the parent to the root, and what they leave of it. */
export type SessionChain = VersionedSession & {
  readonly ancestors: readonly VersionedSession[];
  /** The session as every ancestor bounds it. */
  readonly bounded: Session;
};

/** Longest chain of sessions. */
export const MAX_DEPTH = 8;
const PERMISSION_MODES = ['strict', 'dev', 'networked', 'yolo'] as const;
/** From the one that asks most to the one that asks least. */
const APPROVAL_MODES = ['manual', 'auto', 'full_access'] as const;

const least = <T extends string>(order: readonly T[], values: readonly T[]): T =>
  order[Math.min(...values.map((value) => order.indexOf(value)))] ?? (order[0] as T);

/** INVARIANT: a child has at most the modes and the flag of each ancestor, is open only while all of them are, and paused with any. */
export function boundedBy(session: Session, ancestors: readonly Session[]): Session {
  const all = [session, ...ancestors];
  const paused = all.find((one) => one.paused !== undefined)?.paused;
  return {
    ...session,
    ...(paused === undefined ? {} : { paused }),
    permission_mode: least(
      PERMISSION_MODES,
      all.map((one) => one.permission_mode),
    ),
    approval_mode: least(
      APPROVAL_MODES,
      all.map((one) => one.approval_mode),
    ),
    eternal: all.every((one) => one.eternal),
    state: all.every((one) => one.state === 'open') ? 'open' : 'closed',
  };
}

/** Sessions of the record. Read afresh for each decision; the append names the version and a stale one is refused. */
export class Sessions {
  readonly #audit: AuditLog;

  constructor(audit: AuditLog) {
    this.#audit = audit;
  }

  async find(id: string): Promise<VersionedSession | undefined> {
    const document = (await this.#audit.listDocuments('session', id))[0];
    if (!document) return undefined;
    const parsed = sessionSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
    return parsed.success ? { session: parsed.data, version: document.version } : undefined;
  }

  /** A session with its whole chain; undefined when one of it is missing or it is too deep. */
  async chain(id: string): Promise<SessionChain | undefined> {
    const own = await this.find(id);
    if (!own) return undefined;
    const ancestors: VersionedSession[] = [];
    for (let parent = own.session.parent; parent !== undefined; ) {
      const found = ancestors.length < MAX_DEPTH ? await this.find(parent) : undefined;
      if (!found) return undefined;
      ancestors.push(found);
      parent = found.session.parent;
    }
    const bounded = boundedBy(
      own.session,
      ancestors.map(({ session }) => session),
    );
    return { ...own, ancestors, bounded };
  }

  /** Every session below one, itself first. */
  async tree(id: string): Promise<VersionedSession[]> {
    const all = await this.#all();
    const own = all.find(({ session }) => session.id === id);
    if (!own) return [];
    const found = [own];
    for (const one of found) found.push(...all.filter(({ session }) => session.parent === one.session.id));
    return found;
  }

  /** Open sessions whose turn is paused. */
  async paused(): Promise<Session[]> {
    const all = await this.#all();
    return all.flatMap(({ session }) => (session.state === 'open' && session.paused ? [session] : []));
  }

  /** The newest sessions, at most `limit`, newest first. */
  async newest(limit: number): Promise<Session[]> {
    const all = (await this.#all()).map(({ session }) => session);
    return all.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit);
  }

  async #all(): Promise<VersionedSession[]> {
    const documents = await this.#audit.listDocuments('session');
    return documents.flatMap(({ value, version }) => {
      const parsed = sessionSchema.safeParse(JSON.parse(new TextDecoder().decode(value)));
      return parsed.success ? [{ session: parsed.data, version }] : [];
    });
  }

  /** Records a change, with documents that go with it; returns why not when somebody else was first. */
  async change(
    from: VersionedSession,
    to: Session,
    entry: { type: 'session.changed' | 'session.closed'; nowMs: number; detail: object },
    documents: readonly DocumentDraft[] = [],
  ): Promise<string | undefined> {
    const reply = await this.#audit.append({
      entries: [
        {
          id: `ent_${to.id}_${entry.type}_${from.version + 1n}`,
          type: entry.type,
          stream: to.id,
          emittedMs: BigInt(entry.nowMs),
          body: json({ session: to.id, detail: entry.detail }),
        },
      ],
      documents: [{ kind: 'session', key: to.id, value: json(to), expectedVersion: from.version }, ...documents],
    });
    return reply.refusal?.message;
  }

  /** Records a new session; returns why not when it could not. */
  async open(
    session: Session,
    nowMs: number,
    parent?: { from: VersionedSession; to: Session },
  ): Promise<string | undefined> {
    const reply = await this.#audit.append({
      entries: [
        {
          id: `ent_${session.id}_session.opened_1`,
          type: 'session.opened',
          stream: session.id,
          emittedMs: BigInt(nowMs),
          body: json({
            session: session.id,
            host: session.host,
            agent: { id: session.agent, on_behalf_of: session.principal },
            detail: {
              project: session.project,
              ...(session.parent === undefined ? {} : { parent: session.parent }),
              permission_mode: session.permission_mode,
              approval_mode: session.approval_mode,
            },
          }),
        },
      ],
      documents: [
        { kind: 'session', key: session.id, value: json(session), expectedVersion: 0n },
        // The token is spent in the same commit, so that it opens one child only.
        ...(parent
          ? [
              {
                kind: 'session',
                key: parent.to.id,
                value: json(parent.to),
                expectedVersion: parent.from.version,
              },
            ]
          : []),
      ],
    });
    return reply.refusal?.message;
  }
}
