const NAME = /^[a-z][a-z0-9_]*$/;
const escapeLabel = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

type Counter = { readonly help: string; readonly values: Map<string, number> };

/** Counters of this process, in the Prometheus text format. Label values come from closed sets only, so memory is bounded. */
export class Metrics {
  readonly #counters = new Map<string, Counter>();

  /** A counter named `countersign_<name>_total` with one label; each call of the result adds one to that label's value. */
  counter(name: string, label: string, help: string): (value: string) => void {
    if (!NAME.test(name) || !NAME.test(label)) throw new TypeError(`bad metric name \`${name}\``);
    const counter: Counter = { help, values: new Map() };
    this.#counters.set(`countersign_${name}_total`, counter);
    return (value) => {
      const key = `{${label}="${escapeLabel(value)}"}`;
      counter.values.set(key, (counter.values.get(key) ?? 0) + 1);
    };
  }

  /** The exposition: every counter with its help and type. */
  text(): string {
    const lines = [...this.#counters].flatMap(([name, { help, values }]) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} counter`,
      ...[...values].map(([labels, value]) => `${name}${labels} ${value}`),
    ]);
    return `${lines.join('\n')}\n`;
  }
}
