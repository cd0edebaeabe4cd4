import { z } from 'zod';

/**
 * What a channel is told: masked text only, and an address that leads to the desk, where people sign in. SECURITY: it holds
 * no token with which anybody could answer.
 */
export const noticeSchema = z.strictObject({
  /** Same for every attempt and every gateway, so that a receiver can drop repetitions. */
  id: z.string(),
  type: z.enum([
    'approval.requested',
    'approval.escalated',
    'approval.overdue',
    'approval.emergency',
    'approval.resolved',
    'review.due',
    'turn.paused',
    'test',
  ]),
  /** RFC 3339. */
  timestamp: z.string(),
  data: z.strictObject({
    call: z.string(),
    state: z.string(),
    agent: z.string(),
    host: z.string(),
    session: z.string(),
    tool: z.string(),
    action: z.string(),
    /** At most 400 characters, secrets masked, hidden characters escaped. */
    summary: z.string(),
    /** When the wait ends; RFC 3339; empty when nothing waits. */
    deadline: z.string(),
    decided_by: z.string(),
    reason: z.string(),
    url: z.string(),
  }),
});

export type Notice = z.infer<typeof noticeSchema>;

const HEADLINES: Readonly<Record<Notice['type'], string>> = {
  'approval.requested': 'A tool call waits for approval',
  'approval.resolved': 'A tool call was decided',
  'approval.escalated': 'A tool call waits longer than it should; more people may decide it now',
  'approval.overdue': 'A tool call waits; an answer was due',
  'approval.emergency': 'A tool call was approved in an emergency; somebody else has to review it',
  'review.due': 'The review of an emergency approval is overdue; nobody breaks glass in this queue until it is made',
  'turn.paused': 'A turn is paused after repeated denials',
  test: 'Test of this channel',
};

/** First line of a message for people. */
export const headlineOf = (notice: Notice): string => HEADLINES[notice.type];

/** Facts of a notice in reading order, one line each, empty ones left out. */
export function factsOf({ data }: Notice): readonly (readonly [string, string])[] {
  const facts = [
    ['Agent', data.agent],
    ['Host', data.host],
    ['Tool', data.tool],
    ['Session', data.session],
    ['State', data.state],
    ['Decided by', data.decided_by],
    ['Reason', data.reason],
    ['Waits until', data.deadline],
  ] as const;
  return facts.filter(([, value]) => value !== '').map(([name, value]) => [name, value.replace(/\s+/g, ' ')]);
}
