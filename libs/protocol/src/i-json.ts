import { err, ok, type Result } from '@countersign/kernel';

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export type IJsonError = {
  readonly code: 'malformed_json' | 'duplicate_key' | 'lone_surrogate' | 'unsafe_number' | 'too_deep' | 'too_large';
  readonly message: string;
};

/** Nesting and size limits of arguments. */
const MAX_DEPTH = 32;
const MAX_BYTES = 786_432;

class Refusal extends Error {
  readonly refusal: IJsonError;
  constructor(code: IJsonError['code'], message: string) {
    super(message);
    this.refusal = { code, message };
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** Finds the end of a string; `JSON.parse` then refuses control characters in it. */
const STRING = /"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const BLANK = /[ \t\n\r]*/y;

/** A reader of RFC 8259 text that keeps to I-JSON (RFC 7493), which `JSON.parse` does not. */
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): JsonValue {
    const value = this.#value(0);
    this.#blank();
    if (this.#at !== this.#text.length) this.#fail(`unexpected text after the value at character ${this.#at}`);
    return value;
  }

  #fail(message: string): never {
    throw new Refusal('malformed_json', message);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #blank(): void {
    this.#match(BLANK);
  }

  #take(literal: string): boolean {
    if (!this.#text.startsWith(literal, this.#at)) return false;
    this.#at += literal.length;
    return true;
  }

  #value(depth: number): JsonValue {
    if (depth > MAX_DEPTH) throw new Refusal('too_deep', `nesting is deeper than ${MAX_DEPTH}`);
    this.#blank();
    const next = this.#text[this.#at];
    if (next === '{') return this.#object(depth);
    if (next === '[') return this.#array(depth);
    if (next === '"') return this.#string();
    if (this.#take('true')) return true;
    if (this.#take('false')) return false;
    if (this.#take('null')) return null;
    return this.#number();
  }

  #string(): string {
    const raw = this.#match(STRING);
    if (raw === undefined) this.#fail(`malformed string at character ${this.#at}`);
    const value = JSON.parse(raw) as string;
    if (!value.isWellFormed()) throw new Refusal('lone_surrogate', 'a string holds a lone surrogate');
    return value;
  }

  #number(): number {
    const raw = this.#match(NUMBER);
    if (raw === undefined) this.#fail(`unexpected character at ${this.#at}`);
    const value = Number(raw);
    const safe = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
    if (!safe) throw new Refusal('unsafe_number', 'a number is outside the exact range of ±(2^53 − 1)');
    return value;
  }

  #array(depth: number): JsonValue[] {
    this.#at += 1;
    const items: JsonValue[] = [];
    this.#blank();
    if (this.#take(']')) return items;
    for (;;) {
      items.push(this.#value(depth + 1));
      this.#blank();
      if (this.#take(']')) return items;
      if (!this.#take(',')) this.#fail(`expected \`,\` or \`]\` at character ${this.#at}`);
    }
  }

  #object(depth: number): { readonly [key: string]: JsonValue } {
    this.#at += 1;
    const fields = new Map<string, JsonValue>();
    this.#blank();
    if (this.#take('}')) return {};
    for (;;) {
      this.#blank();
      const key = this.#string();
      if (fields.has(key)) throw new Refusal('duplicate_key', `key \`${key.slice(0, 80)}\` occurs twice`);
      this.#blank();
      if (!this.#take(':')) this.#fail(`expected \`:\` at character ${this.#at}`);
      fields.set(key, this.#value(depth + 1));
      this.#blank();
      if (this.#take('}')) return Object.fromEntries(fields);
      if (!this.#take(',')) this.#fail(`expected \`,\` or \`}\` at character ${this.#at}`);
    }
  }
}

/** Parses I-JSON: no duplicate keys, no lone surrogates, no integers past 2^53, at most 32 levels and 768 KiB. */
export function parseIJson(bytes: Uint8Array): Result<JsonValue, IJsonError> {
  if (bytes.length > MAX_BYTES)
    return err({ code: 'too_large', message: `arguments have ${bytes.length} bytes; the limit is ${MAX_BYTES}` });
  try {
    return ok(new Reader(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)).document());
  } catch (error) {
    if (error instanceof Refusal) return err(error.refusal);
    return err({ code: 'malformed_json', message: 'arguments are not JSON in UTF-8' });
  }
}
