import { z } from 'zod';
import type { CallOf } from '../work/host-tools.ts';

/** What the driver inside is asked to do; one JSON object on a line. */
export type DriverRequest = {
  readonly args: CallOf<'browser'>['args'];
  /** Wall clock of this action, milliseconds. */
  readonly timeoutMs: number;
};

export const MAX_TEXT_CHARS = 200_000;
/** Largest picture, bytes: it fits an outcome. */
export const MAX_PICTURE_BYTES = 700_000;
/** Longest line of the driver, characters: a picture in base64, or a text in which every character is escaped. */
export const MAX_LINE_CHARS = 2_000_000;

/** SECURITY: the driver reads pages, so that its answers are as untrusted as they are. */
export const driverReplySchema = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    url: z.string().max(8_192),
    title: z.string().max(1_000),
    text: z.string().max(MAX_TEXT_CHARS),
    isCut: z.boolean(),
    /** Picture, base64; empty without one. */
    picture: z.base64().max(MAX_LINE_CHARS),
  }),
  z.strictObject({
    ok: z.literal(false),
    message: z.string().max(2_000),
    /** The browser cannot go on and has to be ended. */
    isOver: z.boolean(),
  }),
]);

export type DriverReply = z.infer<typeof driverReplySchema>;
