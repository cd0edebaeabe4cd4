type Run<T> = { readonly result: Promise<T>; readonly abort: AbortController; staying: number };

/** One run for all who ask the same at the same time; it is aborted when every one of them left. */
export class SharedRuns<T> {
  readonly #running = new Map<string, Run<T>>();

  /** Joins the run of `key`, or begins it. `left` aborts when this caller needs the result no more. */
  join(key: string, left: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const found = this.#running.get(key);
    const run = found && !found.abort.signal.aborted ? found : this.#begin(key, work);
    run.staying += 1;
    const leave = () => {
      run.staying -= 1;
      if (run.staying === 0) run.abort.abort();
    };
    if (left.aborted) leave();
    else left.addEventListener('abort', leave, { once: true });
    return run.result;
  }

  #begin(key: string, work: (signal: AbortSignal) => Promise<T>): Run<T> {
    const abort = new AbortController();
    const result = work(abort.signal).finally(() => {
      if (this.#running.get(key) === run) this.#running.delete(key);
    });
    const run: Run<T> = { result, abort, staying: 0 };
    this.#running.set(key, run);
    return run;
  }
}
