import { Readable } from 'node:stream';
import { CallPayload, type CallRecord, type EntryProof, ERROR_CODES, type Receipt } from '@countersign/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { recordAct } from '../access/admin-log.ts';
import { seesAll } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import type { EvidenceLog, EvidenceRefusal } from '../record/evidence-log.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import { csvOf } from './csv.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const AUDIT = { access: ACCESS.exportAll };
const QUERY_KIND = 'query';
const MAX_SAVED = 500;

const nameSchema = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/);
const filtersSchema = z.record(z.string().max(40), z.string().max(256));
const savedSchema = z.strictObject({ question: nameSchema, filters: filtersSchema.default({}) });
const sizeSchema = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const pageSchema = {
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  cursor: z.string().max(64).default(''),
  format: z.enum(['json', 'csv']).default('json'),
};

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

const CODE_OF = {
  not_found: ERROR_CODES.notFound,
  invalid: ERROR_CODES.invalidRequest,
  refused: ERROR_CODES.held,
} as const;

/** Answers with why the record refused. */
export function refuse(reply: FastifyReply, { code, message }: EvidenceRefusal): FastifyReply {
  return sendProblem(reply, { code: CODE_OF[code], message });
}

/** Answers 403 unless the reader sees every queue: the record holds the calls of all. */
export function mayAudit(request: FastifyRequest, reply: FastifyReply): boolean {
  if (seesAll(principalOf(request))) return true;
  sendProblem(reply, { code: ERROR_CODES.forbidden, message: 'the record holds every queue' });
  return false;
}

const entryOf = ({ logIndex, leaf, proof }: EntryProof) => ({
  index: Number(logIndex),
  leaf: base64(leaf),
  proof: proof.map(base64),
});

const receiptOf = (receipt: Receipt) => ({
  callId: receipt.callId,
  orderId: receipt.orderId,
  host: receipt.host,
  callDigest: hex(receipt.callDigest),
  entryId: receipt.entryId,
  index: Number(receipt.logIndex),
  leafHash: hex(receipt.leafHash),
  decidedBy: receipt.decidedBy,
  assertionsDigest: hex(receipt.assertionsDigest),
  termsDigest: hex(receipt.termsDigest),
  issuer: receipt.issuer,
  signature: base64(receipt.signature),
});

/** Exact arguments and salt. SECURITY: this reading becomes an entry before anything is shown. */
async function readArguments(gateway: Gateway, record: CallRecord, reader: string) {
  const sealed = await gateway.audit.getPayload(record.callId, reader);
  const opened = sealed && (await gateway.control.open(sealed.sealedPayload, record.callId).catch(() => undefined));
  if (!opened) return {};
  const payload = CallPayload.decode(opened);
  return { arguments: base64(payload.arguments), salt: base64(payload.salt) };
}

type Asked = {
  question: string;
  filters: Readonly<Record<string, string>>;
  limit: number;
  cursor: string;
  format: string;
};

async function answerQuestion(evidence: EvidenceLog, reply: FastifyReply, asked: Asked) {
  const { question, filters, limit, cursor, format } = asked;
  const answer = await evidence.ask(question, filters, { limit, pageToken: cursor });
  if (!answer.ok) return refuse(reply, answer.error);
  const { columns, nextPageToken, entries, summary } = answer.value;
  const rows = JSON.parse(Buffer.from(answer.value.rows).toString()) as unknown[][];
  if (format === 'csv') {
    if (nextPageToken !== '') reply.header('x-next-cursor', nextPageToken);
    return reply.type('text/csv; charset=utf-8').send(csvOf(columns, rows));
  }
  return {
    columns,
    rows,
    entries: Number(entries),
    ...(nextPageToken === '' ? {} : { next: nextPageToken }),
    ...(summary.length === 0 ? {} : { summary: JSON.parse(Buffer.from(summary).toString()) as unknown }),
  };
}

function questionRoutes(app: Http, gateway: Gateway): void {
  /** One of the auditor's questions; every other query parameter is a filter of it. */
  app.get(
    '/v1/audit/queries/:name',
    { config: AUDIT, schema: { params: z.object({ name: nameSchema }), querystring: z.looseObject(pageSchema) } },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const { limit, cursor, format, ...rest } = request.query;
      const filters = filtersSchema.safeParse(rest);
      if (!filters.success)
        return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: 'a filter is one text of at most 256' });
      const asked = { question: request.params.name, filters: filters.data, limit, cursor, format };
      return answerQuestion(gateway.audit.evidence, reply, asked);
    },
  );

  /** Saved questions with their filters. */
  app.get('/v1/audit/saved', { config: AUDIT }, async (request, reply) => {
    if (!mayAudit(request, reply)) return reply;
    const documents = await gateway.audit.listDocuments(QUERY_KIND);
    return {
      saved: documents.flatMap(({ key, value }) => {
        const saved = savedSchema.safeParse(JSON.parse(Buffer.from(value).toString()));
        return saved.success ? [{ name: key, ...saved.data }] : [];
      }),
    };
  });

  /** Saves a question under a name; an older one of that name is replaced. The saving is an entry. */
  app.put(
    '/v1/audit/saved/:name',
    { config: AUDIT, schema: { params: z.object({ name: nameSchema }), body: savedSchema } },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const { name } = request.params;
      const known = await gateway.audit.listDocuments(QUERY_KIND);
      const before = known.find(({ key }) => key === name);
      if (!before && known.length >= MAX_SAVED)
        return sendProblem(reply, { code: ERROR_CODES.invalidRequest, message: `at most ${MAX_SAVED} are kept` });
      const act = { what: 'query.saved', by: principalOf(request).name, detail: { name } };
      const change = { kind: QUERY_KIND, key: name, expectedVersion: before?.version ?? 0n, value: request.body };
      await recordAct(gateway.audit, act, gateway.now(), [change]);
      return { name, ...request.body };
    },
  );
}

function proofRoutes(app: Http, gateway: Gateway): void {
  const { evidence } = gateway.audit;
  /** Everything that proves one call. With `arguments=true` also the exact ones; that reading is an entry. */
  app.get(
    '/v1/audit/calls/:id/evidence',
    {
      config: AUDIT,
      schema: {
        params: z.object({ id: z.string().regex(/^[\w-]{1,64}$/) }),
        querystring: z.object({ arguments: z.enum(['true', 'false']).default('false') }),
      },
    },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const first = await evidence.proveCall(request.params.id);
      if (!first.ok) return refuse(reply, first.error);
      const { call } = first.value;
      const wanted = request.query.arguments === 'true' && call;
      const exact = wanted ? await readArguments(gateway, call, principalOf(request).name) : {};
      // The reading has become an entry of the call, which the evidence holds too.
      const proven = wanted ? await evidence.proveCall(request.params.id) : first;
      if (!proven.ok) return refuse(reply, proven.error);
      const { entries, checkpoint, receipt } = proven.value;
      return {
        format: 'countersign-evidence/1',
        call: request.params.id,
        checkpoint,
        entries: entries.map(entryOf),
        ...(call ? { view: base64(call.view), envelope: base64(call.canonicalEnvelope) } : {}),
        ...(receipt ? { receipt: receiptOf(receipt) } : {}),
        ...exact,
      };
    },
  );

  /** Audit paths of entries, `index=1,2,3`. */
  app.get(
    '/v1/audit/proofs/inclusion',
    { config: AUDIT, schema: { querystring: z.object({ index: z.string().regex(/^\d{1,15}(?:,\d{1,15}){0,199}$/) }) } },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const proven = await evidence.proveInclusion(request.query.index.split(',').map(Number));
      if (!proven.ok) return refuse(reply, proven.error);
      return { checkpoint: proven.value.checkpoint, entries: proven.value.entries.map(entryOf) };
    },
  );

  /** That the tree of size `from` is a prefix of that of size `to` (default: the present one). */
  app.get(
    '/v1/audit/proofs/consistency',
    { config: AUDIT, schema: { querystring: z.object({ from: sizeSchema, to: sizeSchema.default(0) }) } },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const proven = await evidence.proveConsistency(request.query.from, request.query.to);
      if (!proven.ok) return refuse(reply, proven.error);
      const { proof, newSize, newRoot, checkpoint } = proven.value;
      return { proof: proof.map(base64), size: Number(newSize), root: base64(newRoot), checkpoint };
    },
  );
}

async function* checkLines(evidence: EvidenceLog): AsyncGenerator<string> {
  for await (const report of evidence.checkDatabase()) {
    const problems = report.problems.map(({ logIndex, code, message }) => ({
      index: logIndex === undefined ? null : Number(logIndex),
      code,
      message,
    }));
    const { entries, finished, checkpoint, moreProblems } = report;
    const end = finished ? { finished, checkpoint, moreProblems: Number(moreProblems) } : {};
    yield `${JSON.stringify({ entries: Number(entries), problems, ...end })}\n`;
  }
}

function checkpointRoutes(app: Http, gateway: Gateway): void {
  /** The database compared with the tree, as NDJSON while it goes on; the last line has `finished`. */
  app.get('/v1/audit/check', { config: AUDIT }, async (request, reply) => {
    if (!mayAudit(request, reply)) return reply;
    return reply.type('application/x-ndjson').send(Readable.from(checkLines(gateway.audit.evidence)));
  });

  /** Stored checkpoints, the last of each day and those that witnesses cosigned, newest first. */
  app.get(
    '/v1/audit/checkpoints',
    { config: AUDIT, schema: { querystring: z.object({ limit: pageSchema.limit, before: sizeSchema.default(0) }) } },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const found = await gateway.audit.evidence.listCheckpoints(request.query.limit, request.query.before);
      if (!found.ok) return refuse(reply, found.error);
      return { checkpoints: found.value.checkpoints.map(({ size, note }) => ({ size: Number(size), note })) };
    },
  );

  /** How far each stream to a place outside is. */
  app.get('/v1/audit/streams', { config: AUDIT }, async (request, reply) => {
    if (!mayAudit(request, reply)) return reply;
    const found = await gateway.audit.evidence.listStreams();
    if (!found.ok) return refuse(reply, found.error);
    const streams = found.value.streams.map(({ name, nextIndex, lag, gaps, failures, problem }) => ({
      name,
      next: Number(nextIndex),
      lag: Number(lag),
      gaps: Number(gaps),
      failures: Number(failures),
      problem,
    }));
    return { streams, indexLag: Number(found.value.indexLag) };
  });

  /** Takes a stored checkpoint with the cosignature of a known witness. */
  app.post(
    '/v1/audit/checkpoints',
    { config: AUDIT, schema: { body: z.strictObject({ note: z.string().min(1).max(16_384) }) } },
    async (request, reply) => {
      if (!mayAudit(request, reply)) return reply;
      const added = await gateway.audit.evidence.addCosignatures(request.body.note);
      return added.ok ? { witnesses: added.value.witnesses } : refuse(reply, added.error);
    },
  );
}

/** What an auditor asks, beside the export. */
export function addEvidenceRoutes(app: Http, gateway: Gateway): void {
  questionRoutes(app, gateway);
  proofRoutes(app, gateway);
  checkpointRoutes(app, gateway);
}
