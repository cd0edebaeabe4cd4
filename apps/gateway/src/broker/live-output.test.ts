import { expect, test } from 'vitest';
import { LiveOutput, type LiveOutputParts } from './live-output.ts';

/** Following a call reads neither the record nor the members. */
const parts = { now: () => 0 } as LiveOutputParts;

test('calls that end elsewhere do not keep later ones from being followed', () => {
  const output = new LiveOutput(parts);
  const ended: string[] = [];
  const follow = (id: string) => output.watch(id, { onPiece: () => undefined, onEnd: () => void ended.push(id) });
  const all = Array.from({ length: 2_001 }, (_, at) => follow(`call_${at}`));
  expect([all.every(Boolean), ended]).toEqual([true, ['call_0']]);
});

test('the end of a call is told to everybody who follows it, and to nobody who stopped', () => {
  const output = new LiveOutput(parts);
  const ended: string[] = [];
  const follow = (name: string) =>
    output.watch('call_1', { onPiece: () => undefined, onEnd: () => void ended.push(name) });
  const stop = follow('first');
  follow('second');
  stop?.();
  output.end('call_1');
  output.end('call_1');
  expect(ended).toEqual(['second']);
});
