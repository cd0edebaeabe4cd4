import { type AskReply, AskRequest, EvidenceClient } from '@countersign/protocol';
import { grpcClient } from '@countersign/service-kit';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';

const suite = useAudit();
const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const HOSTILE = `<b>no</b> \u202e \0 "'; drop table audit.fact; --`;
const SINCE = { since: '1' };
let audit: AuditProcess;
let evidence: EvidenceClient;

beforeEach(async () => {
  audit = await suite.start({});
  evidence = grpcClient(EvidenceClient, `127.0.0.1:${audit.port}`);
});
afterEach(() => evidence.close());

const entry = (callId: string, type: string, toState: string, body: object) => ({
  id: `ent_${callId}_${type}_1`,
  type,
  stream: callId,
  emittedMs: BigInt(Date.now()),
  callId,
  body: json(body),
  toState,
});

type Facts = { agent: string; host: string; queue: string; rules: string[] };

/** A call that waits for people. */
const submit = (callId: string, { agent, host, queue, rules }: Facts) =>
  audit.append({
    call: {
      callId,
      agent,
      sessionId: 'ses_1',
      host,
      sealedPayload: json('sealed'),
      tool: 'bash',
      callDigest: Uint8Array.of(1),
    },
    view: json({ shown: callId }),
    entries: [
      entry(callId, 'call.received', 'received', {
        agent: { id: agent, on_behalf_of: 'ann' },
        tool: { name: 'bash', action: 'execute', args_commitment: 'aa' },
        host,
      }),
      entry(callId, 'approval.requested', 'pending', { detail: { queue, rules } }),
    ],
  });
const answer = (callId: string, effect: 'allow' | 'deny', reason = '') =>
  audit.append({
    entries: [
      entry(callId, 'approval.answered', '', { approver: { subject: 'bob' }, detail: { answer: effect } }),
      entry(callId, 'decision', effect === 'allow' ? 'approved' : 'denied', {
        decision: { effect, decided_by: 'human', policy_digest: 'p1', reason },
        approver: { subject: 'bob' },
      }),
      ...(effect === 'deny' ? [entry(callId, 'call.closed', '', { detail: { state: 'denied' } })] : []),
    ],
    decidedBy: 'human',
    decidedByName: 'bob',
  });
const compared = (call: string, opinion: string, human: string) =>
  audit.append({
    entries: [
      {
        ...entry('', 'guardian.compared', '', { detail: { call, version: 'm-1', opinion, human } }),
        id: `ent_${call}_compared`,
        stream: 'guardian',
      },
    ],
  });

async function ask(question: string, filters: Record<string, string> = SINCE) {
  const reply = await new Promise<AskReply>((resolve, reject) =>
    evidence.ask(AskRequest.fromPartial({ question, filters }), (error, value) =>
      error ? reject(error) : resolve(value),
    ),
  );
  return {
    rows: JSON.parse(Buffer.from(reply.rows).toString()) as unknown[][],
    summary: JSON.parse(Buffer.from(reply.summary).toString()) as Record<string, unknown>,
  };
}

/** Waiting times of the answers as the entries' own times give them, ascending. */
async function waits(): Promise<number[]> {
  const reply = await new Promise<AskReply>((resolve, reject) =>
    evidence.ask(AskRequest.fromPartial({ question: 'entries', limit: 1_000 }), (error, value) =>
      error ? reject(error) : resolve(value),
    ),
  );
  const [ms, type, call] = ['recorded_ms', 'type', 'call_id'].map((name) => reply.columns.indexOf(name)) as [
    number,
    number,
    number,
  ];
  const rows = JSON.parse(Buffer.from(reply.rows).toString()) as unknown[][];
  const asked = new Map(
    rows.filter((row) => row[type] === 'approval.requested').map((row) => [row[call], Number(row[ms])]),
  );
  return rows
    .filter((row) => row[type] === 'approval.answered')
    .map((row) => Number(row[ms]) - (asked.get(row[call]) ?? Number.NaN))
    .sort((a, b) => a - b);
}

test('known work gives known figures, whole and by agent, host, queue and period', async () => {
  const web = { agent: 'deployer', host: 'web-1', queue: 'release', rules: ['ask git push'] };
  const lab = { agent: 'tester', host: 'lab-1', queue: 'default', rules: ['ask git push', HOSTILE] };
  for (const at of [1, 2, 3, 4, 5]) await submit(`call_w${at}`, web);
  for (const at of [1, 2]) await submit(`call_l${at}`, lab);
  for (const at of [1, 2, 3]) await answer(`call_w${at}`, 'allow');
  await answer('call_w4', 'deny', 'not today');
  await answer('call_l1', 'deny', 'not today');
  await answer('call_l2', 'deny', HOSTILE);
  await audit.append({
    entries: [
      entry('call_w5', 'approval.expired', 'expired', {}),
      entry('call_w5', 'call.closed', '', { detail: { state: 'expired' } }),
    ],
  });
  await compared('call_w1', 'approve', 'approved');
  await compared('call_w4', 'approve', 'denied');
  await compared('call_l1', 'deny', 'denied');
  await compared('call_l2', 'unavailable', 'denied');

  const counts = (rows: unknown[][]) => rows.map(([, ...rest]) => rest);
  const volumes = await ask('volumes');
  expect(counts(volumes.rows)).toEqual([
    ['allow', 'human', 3],
    ['deny', 'human', 3],
    ['expired', '', 1],
  ]);
  expect([Number(volumes.rows[0]?.[0]) % 86_400_000, volumes.summary]).toEqual([0, { seen: 7, cut: false }]);
  expect(counts((await ask('volumes', { ...SINCE, agent: 'tester' })).rows)).toEqual([['deny', 'human', 2]]);
  expect(counts((await ask('volumes', { ...SINCE, host: 'web-1', queue: 'release' })).rows).length).toBe(3);
  expect((await ask('volumes', { ...SINCE, host: 'web-1', queue: 'default' })).rows).toEqual([]);
  expect((await ask('volumes', { since: String(Date.now() + 3_600_000) })).rows).toEqual([]);

  const sorted = await waits();
  // Nearest rank: the smallest value that at least that share of all is not above.
  const [median_ms, p95_ms] = [0.5, 0.95].map((share) => sorted[Math.ceil(sorted.length * share) - 1]);
  const times = await ask('decision-times');
  expect(counts(times.rows)).toEqual([[6, median_ms, p95_ms]]);
  expect(times.summary).toEqual({ seen: 6, cut: false, median_ms, p95_ms });
  expect((await ask('decision-times', { ...SINCE, host: 'lab-1' })).summary).toMatchObject({ seen: 2 });

  const shown = HOSTILE.replace('\0', '\ufffd');
  expect((await ask('deny-reasons')).rows).toEqual([
    ['not today', 'human', 2],
    [shown, 'human', 1],
  ]);
  expect((await ask('deny-reasons', { ...SINCE, queue: 'release' })).rows).toEqual([['not today', 'human', 1]]);
  expect((await ask('busiest-rules')).rows).toEqual([
    ['ask git push', 'ask', 7],
    [shown, 'ask', 2],
  ]);
  expect((await ask('guardian-compared')).rows).toEqual([['m-1', 3, 2, 1, 0]]);
  expect((await ask('guardian-compared', { ...SINCE, agent: 'tester' })).rows).toEqual([['m-1', 1, 1, 0, 0]]);
  await expect(ask('volumes', {})).rejects.toMatchObject({ code: 3 });
});
