import { createHash, randomBytes } from 'node:crypto';
import { CallPayload, type CallRecord } from '@countersign/protocol';
import { inspect } from '../broker/inspect.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import type { View } from './view.ts';

/** Scripts that are shown for one call. */
const MAX_SCRIPTS = 8;
const MAX_CHARACTERS = 256 * 1024;

/** A file that a command starts. `problem` says why its text is not shown. */
export type Script = {
  readonly path: string;
  readonly text?: string;
  readonly problem?: 'binary' | 'changed' | 'large' | 'unreadable';
};

const maskLines = (text: string): string =>
  text
    .split(/(\n|\t)/)
    .map((part) => (part === '\n' || part === '\t' ? part : maskText(part)))
    .join('');

async function scriptOf(
  gateway: Gateway,
  record: CallRecord,
  view: View,
  { path, content_digest: digest }: View['preconditions'][number],
): Promise<Script> {
  const host = await gateway.members.find('host', record.host);
  if (!host) return { path, problem: 'unreadable' };
  const { connection } = gateway.broker;
  const args = new TextEncoder().encode(JSON.stringify({ path }));
  const found = await inspect(
    { connection, identity: gateway.identity, control: gateway.control, host },
    {
      callId: record.callId,
      tool: 'read',
      project: view.project,
      payload: CallPayload.encode({ salt: randomBytes(32), arguments: args }).finish(),
      pathsOnly: false,
      denyRead: view.obligations.deny_read,
      denyWrite: [],
    },
  );
  if (!found.ok) return { path, problem: 'unreadable' };
  const { diff: text, paths } = found.value;
  if (Buffer.from(paths[0]?.contentDigest ?? []).toString('hex') !== digest) return { path, problem: 'changed' };
  // SECURITY: the text shown has the digest that the order demands, so that what was read is what runs.
  if (createHash('sha256').update(text).digest('hex') !== digest) return { path, problem: 'binary' };
  return text.length > MAX_CHARACTERS ? { path, problem: 'large' } : { path, text: maskLines(text) };
}

/**
 * Text of the scripts that a command starts, asked of its host; masked. Only files whose digests the order of the call demands
 * are asked for, under the read rules that it would run under. Programs that are no text are left out.
 */
export async function scriptsOfCall(gateway: Gateway, record: CallRecord, view: View): Promise<readonly Script[]> {
  if (record.action !== 'execute') return [];
  const bound = view.preconditions.filter(({ content_digest: digest }) => digest !== '').slice(0, MAX_SCRIPTS);
  const scripts = await Promise.all(bound.map((one) => scriptOf(gateway, record, view, one)));
  return scripts.filter(({ problem }) => problem !== 'binary');
}
