import { type CallSubmit, OutputText, sealTo } from '@countersign/protocol';
import type { LivePiece } from '../broker/live-output.ts';
import type { Gateway } from '../context.ts';
import type { Member } from '../record/members.ts';
import { tellAgent } from './announce.ts';

/** Passes the output of a call on to the agent that asked for it, sealed to that agent, until the call ends. */
export function followOutput(gateway: Gateway, member: Member, submit: CallSubmit): void {
  const { callId, sessionId, followOutput: wanted } = submit;
  if (!wanted || gateway.followed.has(callId)) return;
  const pass = async ({ number, stdout, stderr, droppedBytes }: LivePiece) => {
    const text = OutputText.encode({ stdout, stderr, droppedBytes: BigInt(droppedBytes) }).finish();
    const sealedOutput = await sealTo(member.seal_key, text, callId);
    tellAgent(gateway, member.id, {
      type: 'call.output',
      callId,
      sessionId,
      sealedOutput,
      outputNumber: BigInt(number),
    });
  };
  const ending = gateway.output.watch(callId, {
    onPiece: (piece) => void pass(piece).catch(() => undefined),
    onEnd: () => gateway.followed.delete(callId),
  });
  if (ending) gateway.followed.add(callId);
}
