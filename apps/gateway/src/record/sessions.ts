import { z } from 'zod';
import type { AuditLog } from './audit-log.ts';
import { json } from './entries.ts';

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
  state: z.enum(['open', 'closed']),
  labels: z.record(z.string(), z.string()),
});

export type Session = z.infer<typeof sessionSchema>;
export type VersionedSession = { readonly session: Session; readonly version: bigint };

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

  /** Records a new session; returns why not when it could not. */
  async open(session: Session, nowMs: number): Promise<string | undefined> {
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
              permission_mode: session.permission_mode,
              approval_mode: session.approval_mode,
            },
          }),
        },
      ],
      documents: [{ kind: 'session', key: session.id, value: json(session), expectedVersion: 0n }],
    });
    return reply.refusal?.message;
  }
}
