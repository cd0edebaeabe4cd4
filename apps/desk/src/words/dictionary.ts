import type { en } from './en.ts';

/** A text of the desk. */
export type Word = keyof typeof en;

type Other<K> = K extends `${infer Base}_one` ? (`${Base}_other` extends keyof typeof en ? never : K) : K;

/** A whole translation: every text but the singular forms that a language may do without. */
export type Dictionary = { readonly [K in Word as Other<K>]: string };
