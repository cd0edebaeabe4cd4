import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { DroppedLeaf } from '@countersign/merkle';
import type { RecordedCall } from '@countersign/policy';
import { linesOfFile, readLines } from '../bundle/log-lines.ts';
import { TileFolderReader } from '../bundle/tile-folder.ts';
import { LOG_FILE } from '../bundle/verify-export.ts';
import { EXIT, RefusedError } from '../output.ts';
import { readInput } from './policy-input.ts';

/** Permission mode of the session that made the call; the set is completed with it. */
export type RecordedLine = RecordedCall & { readonly mode?: string };

export interface Recording {
  readonly calls: readonly RecordedLine[];
  /** Calls of an export whose entries hold no arguments. */
  readonly withoutArguments: number;
}

type Body = Readonly<Record<string, unknown>>;
type Mutable = { -readonly [K in keyof RecordedLine]: RecordedLine[K] };
const isMap = (value: unknown): value is Body => typeof value === 'object' && value !== null && !Array.isArray(value);
const part = (body: Body, key: string): Body => (isMap(body[key]) ? body[key] : {});
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Undoes the escapes that stand for control characters in recorded text. */
const unescaped = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(unescaped);
  return typeof value === 'string'
    ? value.replaceAll(/\\u\{([0-9a-f]{1,6})\}/g, (whole, hex: string) => {
        const point = Number.parseInt(hex, 16);
        return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
      })
    : value;
};

class Story {
  readonly calls = new Map<string, Mutable>();
  readonly #sessions = new Map<string, Body>();
  withoutArguments = 0;

  add(entry: Body): void {
    const id = text(entry.call);
    if (entry.type === 'session.opened') this.#sessions.set(text(entry.session), part(entry, 'detail'));
    else if (entry.type === 'call.received') this.#received(id, entry);
    else if (entry.type === 'approval.requested') this.#set(id, { effect: 'ask' });
    else if (entry.type === 'decision') this.#decided(id, part(entry, 'decision'));
  }

  #set(id: string, what: Partial<Mutable>): void {
    const call = this.calls.get(id);
    if (call) Object.assign(call, what);
  }

  #received(id: string, entry: Body): void {
    const given = part(entry, 'detail').arguments;
    if (!isMap(given)) {
      this.withoutArguments += 1;
      return;
    }
    const args = Object.fromEntries(Object.entries(given).map(([key, value]) => [key, unescaped(value)]));
    const session = this.#sessions.get(text(entry.session)) ?? {};
    const project = text(session.project);
    const approvalMode = session.approval_mode;
    this.calls.set(id, {
      id,
      agent: text(part(entry, 'agent').id),
      call: { tool: text(part(entry, 'tool').name), args },
      ...(project === '' ? {} : { session: { project, ...(typeof args.cwd === 'string' ? { cwd: args.cwd } : {}) } }),
      ...(text(session.permission_mode) === '' ? {} : { mode: text(session.permission_mode) }),
      ...(approvalMode === 'auto' || approvalMode === 'full_access' ? { approvalMode } : {}),
    });
  }

  #decided(id: string, { effect, decided_by: by }: Body): void {
    if (by === 'human') this.#set(id, { effect: 'ask', human: effect === 'allow' ? 'approved' : 'denied' });
    // A model, like a person, answers what the engine asked.
    else if (by === 'guardian') this.#set(id, { effect: 'ask' });
    else if (effect === 'allow' || effect === 'deny') this.#set(id, { effect });
  }
}

function storyOf(leaves: Iterable<Uint8Array>): Recording {
  const story = new Story();
  const decoder = new TextDecoder('utf-8');
  for (const leaf of leaves) {
    try {
      const entry: unknown = JSON.parse(decoder.decode(leaf));
      if (isMap(entry)) story.add(entry);
    } catch {
      throw new RefusedError(
        'the export is damaged; run `countersign audit verify` on it',
        'countersign.cli.bad_recording',
      );
    }
  }
  return { calls: [...story.calls.values()], withoutArguments: story.withoutArguments };
}

function readJsonLines(file: string): Recording {
  const calls = readInput(file)
    .split('\n')
    .flatMap((line, i): RecordedLine[] => {
      if (line.trim() === '') return [];
      try {
        const value: unknown = JSON.parse(line);
        const call = isMap(value) ? value.call : undefined;
        if (isMap(call) && isMap(call.args) && (typeof call.tool === 'string' || isMap(call.tool)))
          return [value as unknown as RecordedLine];
      } catch {
        // An unreadable line is reported below like a line of another shape.
      }
      throw new RefusedError(
        `${file}:${i + 1}: not a recorded call; want \`{"call":{"tool":…,"args":{…}}}\``,
        'countersign.cli.bad_recording',
        EXIT.usage,
      );
    });
  return { calls, withoutArguments: 0 };
}

/** Entries of an export, without those that were dropped. */
function* keptLeaves(leaves: Iterable<Uint8Array | DroppedLeaf>): Generator<Uint8Array> {
  for (const leaf of leaves) if (leaf instanceof Uint8Array) yield leaf;
}

const isExportLines = (file: string): boolean => {
  for (const line of linesOfFile(file)) return /^\{"leaf(_hash)?":"/.test(line.subarray(0, 14).toString('latin1'));
  return false;
};

/**
 * Reads recorded calls: a folder that `audit export` wrote (tiles or lines), its `log.ndjson`, or one JSON object a line. A
 * line that is not a call refuses the whole file. Exports are not verified here.
 */
export function readRecordings(place: string): Recording {
  if (!existsSync(place)) throw new RefusedError(`cannot read \`${place}\``, 'countersign.cli.no_cases', EXIT.usage);
  const lines = statSync(place).isDirectory() ? path.join(place, LOG_FILE) : place;
  if (lines !== place && !existsSync(lines)) {
    if (existsSync(path.join(place, 'tile'))) return storyOf(keptLeaves(new TileFolderReader(place).leaves()));
    throw new RefusedError(`\`${place}\` holds no export`, 'countersign.cli.no_cases', EXIT.usage);
  }
  return lines !== place || isExportLines(lines)
    ? storyOf(keptLeaves(readLines(linesOfFile(lines)).leaves))
    : readJsonLines(lines);
}
