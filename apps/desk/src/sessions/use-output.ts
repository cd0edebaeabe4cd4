import { useEffect, useState } from 'react';
import * as z from 'zod/mini';

/** Characters of output that the page keeps; earlier ones are left out and said to be. */
const MAX_KEPT = 200_000;
const SHOW_EVERY_MS = 100;
const RETRY_MS = 2_000;

export type LiveOutput = {
  readonly text: string;
  readonly cut: boolean;
  readonly droppedBytes: number;
  readonly line: 'connecting' | 'live' | 'lost' | 'ended';
};

const NOTHING: LiveOutput = { text: '', cut: false, droppedBytes: 0, line: 'connecting' };
const tailSchema = z.object({ text: z.string() });
const pieceSchema = z.object({ stdout: z.string(), stderr: z.string(), droppedBytes: z.number() });

function parsed<T>(schema: z.ZodMiniType<T>, data: string): T | undefined {
  try {
    return schema.parse(JSON.parse(data));
  } catch {
    return undefined;
  }
}

/** Output that grows; the newest `MAX_KEPT` characters of it. */
class Kept {
  text = '';
  cut = false;
  droppedBytes = 0;

  add(text: string): void {
    this.text += text;
    if (this.text.length <= MAX_KEPT) return;
    this.text = this.text.slice(-MAX_KEPT);
    this.cut = true;
  }
}

/** Follows the output of a running call until it ends. After a lost line it begins again with the last lines that the host has. */
export function useOutput(callId: string): LiveOutput {
  const [output, setOutput] = useState(NOTHING);
  useEffect(() => {
    let kept = new Kept();
    let source: EventSource | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let line: LiveOutput['line'] = 'connecting';
    const show = () => {
      const { text, cut, droppedBytes } = kept;
      setOutput((before) =>
        before.text === text && before.line === line ? before : { text, cut, droppedBytes, line },
      );
    };
    const open = () => {
      kept = new Kept();
      source = new EventSource(`/v1/calls/${encodeURIComponent(callId)}/output`);
      source.addEventListener('tail', ({ data }: MessageEvent<string>) => {
        line = 'live';
        kept.add(parsed(tailSchema, data)?.text ?? '');
      });
      source.addEventListener('output', ({ data }: MessageEvent<string>) => {
        const piece = parsed(pieceSchema, data);
        if (!piece) return;
        kept.add(piece.stdout + piece.stderr);
        kept.droppedBytes += piece.droppedBytes;
      });
      source.addEventListener('end', () => {
        line = 'ended';
        source?.close();
      });
      source.onerror = () => {
        // The browser would begin in the middle; the stream has no numbers to resume from.
        source?.close();
        if (line === 'ended') return;
        line = 'lost';
        retry = setTimeout(open, RETRY_MS);
      };
    };
    open();
    const shown = setInterval(show, SHOW_EVERY_MS);
    return () => {
      clearInterval(shown);
      clearTimeout(retry);
      source?.close();
    };
  }, [callId]);
  return output;
}
