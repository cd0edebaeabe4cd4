import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { z } from 'zod';

const spentSchema = z.strictObject({
  /** Requests of each session, oldest first. */
  sessions: z.array(z.tuple([z.string(), z.int().min(0)])).max(10_000),
  /** Times of the requests of the last hour, milliseconds. */
  recent: z.array(z.int().min(0)).max(100_000),
});

/** What was spent; kept where a restart finds it. */
export type Spent = z.output<typeof spentSchema>;

/** Keeps what was spent in a file of the service's own. */
export class BudgetFile {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** What was spent before; nothing when there is no file. Throws a FaultError for one that cannot be understood. */
  read(): Spent {
    if (!existsSync(this.#file)) return { sessions: [], recent: [] };
    try {
      return spentSchema.parse(JSON.parse(readFileSync(this.#file, 'utf8')));
    } catch (cause) {
      throw new FaultError(`budgets in \`${this.#file}\` cannot be read; move the file away to start them anew`, {
        code: 'countersign.guardian.bad_state',
        retryable: false,
        cause,
      });
    }
  }

  /** Replaces the file. Throws when it cannot be written. */
  write(spent: Spent): void {
    const next = `${this.#file}.next`;
    writeFileSync(next, JSON.stringify(spent), { mode: 0o600 });
    renameSync(next, this.#file);
  }
}
