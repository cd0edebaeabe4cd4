import pg from 'pg';
import { expect } from 'vitest';
import { received } from './drafts.ts';
import type { AuditProcess, AuditSuite } from './use-audit.ts';

/** Rows of one query on a connection of its own. */
export async function queryOnce<T extends pg.QueryResultRow>(url: string, text: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<T>(text)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Eight callers that append until they are stopped; keeps what was answered. */
export function load(
  audit: AuditProcess,
  prefix: string,
  facts: object = {},
): { answered: string[]; stop: () => void } {
  const answered: string[] = [];
  let running = true;
  const appender = async (at: number) => {
    for (let n = 0; running; n += 1) {
      const callId = `call_${prefix}_${at}_${n}`;
      const reply = await audit.append(received(callId, facts));
      if (!reply.refusal) answered.push(callId);
    }
  };
  for (let at = 0; at < 8; at += 1) void appender(at);
  return {
    answered,
    stop: () => {
      running = false;
    },
  };
}

/** Everything that was answered is in the database, whose log verifies and holds exactly the calls of its tables. */
export async function expectRecorded(
  suite: AuditSuite,
  { audit, url, answered }: { audit: AuditProcess; url: string; answered: readonly string[] },
): Promise<void> {
  const rows = await queryOnce<{ call_id: string }>(url, 'select call_id from audit.call');
  const known = new Set(rows.map((row) => row.call_id));
  expect(answered.filter((callId) => !known.has(callId))).toEqual([]);
  const verified = await suite.verified(audit);
  expect(verified.problems).toEqual([]);
  expect(verified.openCalls.length).toBe(known.size);
}
