import type { OutputPiece } from '../work/host-tools.ts';
import { TailBuffer } from './tail-buffer.ts';

const MAX_COMMAND_CHARS = 200;

/** A running command as its session and operators see it. */
export type ProcessView = {
  readonly id: string;
  readonly state: 'running' | 'backgrounded';
  readonly command: string;
  readonly started_ms: number;
};

type Entry = {
  readonly callId: string;
  readonly sessionId: string;
  readonly command: string;
  readonly startedMs: number;
  readonly stop: (reason: string) => void;
  readonly tail: TailBuffer;
  state: ProcessView['state'];
};

/** The commands that run on this host now, by the call that started each. Its owner bounds their number. */
export class ProcessTable {
  private readonly entries = new Map<string, Entry>();

  add(entry: Omit<Entry, 'tail' | 'state'>): void {
    this.entries.set(entry.callId, { ...entry, tail: new TailBuffer(), state: 'running' });
  }

  remove(callId: string): void {
    this.entries.delete(callId);
  }

  backgrounded(callId: string): void {
    const entry = this.entries.get(callId);
    if (entry) entry.state = 'backgrounded';
  }

  output(callId: string, { stdout, stderr, droppedBytes }: OutputPiece): void {
    const tail = this.entries.get(callId)?.tail;
    tail?.add(stdout, droppedBytes);
    tail?.add(stderr);
  }

  list(sessionId: string): readonly ProcessView[] {
    return [...this.entries.values()]
      .filter((entry) => entry.sessionId === sessionId)
      .map(({ callId, state, command, startedMs }) => ({
        id: callId,
        state,
        command: command.slice(0, MAX_COMMAND_CHARS),
        started_ms: startedMs,
      }));
  }

  /** Last lines of a running command; undefined when it does not run, or not in that session. */
  tail(callId: string, lines: number, sessionId?: string): ReturnType<TailBuffer['last']> | undefined {
    return this.find(callId, sessionId)?.tail.last(lines);
  }

  /** Stops a running command of the session; false when there is none. */
  stop(callId: string, sessionId: string, reason: string): boolean {
    const entry = this.find(callId, sessionId);
    entry?.stop(reason);
    return entry !== undefined;
  }

  private find(callId: string, sessionId?: string): Entry | undefined {
    const entry = this.entries.get(callId);
    return sessionId === undefined || entry?.sessionId === sessionId ? entry : undefined;
  }
}
