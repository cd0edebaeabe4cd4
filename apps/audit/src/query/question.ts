/** Values for the placeholders of a statement, in the order in which they were added. */
export class Parameters {
  readonly values: unknown[] = [];

  /** Adds a value and returns its placeholder. */
  add(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}

/** Filters that a question takes. `time` is ISO 8601 or milliseconds; `count` a whole number. */
export type FilterKind = 'text' | 'time' | 'count';
export type Filters = ReadonlyMap<string, string | number>;

export type Page = {
  /** Key of the last row of the page before; undefined for the first page. */
  readonly after: string | undefined;
  readonly limit: number;
  readonly nowMs: number;
};

/** A statement whose rows hold `columns` and, as `k`, the key that the next page begins after. */
export type Statement = { readonly text: string; readonly values: readonly unknown[] };

/** One thing that an auditor asks. */
export type Question = {
  readonly name: string;
  readonly about: string;
  readonly filters: Readonly<Record<string, FilterKind>>;
  readonly required?: readonly string[];
  readonly columns: readonly string[];
  readonly rows: (filters: Filters, page: Page) => Statement;
  /** Figures over all rows that the filters let through, as one row. */
  readonly summary?: (filters: Filters, page: Page) => Statement;
};
