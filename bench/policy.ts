import { readFileSync } from 'node:fs';
import { decide, defaultFacts, type PolicySet } from '../libs/policy/src/index.ts';
import { type Arm, interleave, isQuiet, median, ratio, show } from './interleave.ts';
import { casbin, cedar, picomatchByTool } from './policy-rivals.ts';
import { COMMAND, policyOf, rulesOf, SUBJECT } from './policy-rules.ts';

const ROUNDS = 21;
const SLICE_MS = 200;
const print = (line: string): void => void process.stdout.write(`${line}\n`);

/** Repeats one synchronous question for about a slice. */
const arm = (name: string, expected: string, ask: () => string): Arm => ({
  name,
  run: async (sliceMs) => {
    const start = performance.now();
    let done = 0;
    let elapsedMs = 0;
    for (; elapsedMs < sliceMs; elapsedMs = performance.now() - start)
      for (let i = 0; i < 16; i++, done++) if (ask() !== expected) throw new Error(`${name} answers otherwise`);
    return { done, elapsedMs };
  },
});

/** Matching alone: the effect of all rules on one command, nothing parsed and nothing explained. */
const match = (set: PolicySet) => (): string => {
  const { tight, allow } = set.index.commands('bash');
  let effect = 'none';
  for (const r of tight.near([SUBJECT]))
    if (r.pattern?.matchesStrict(SUBJECT)) effect = r.rule.effect === 'deny' || effect === 'deny' ? 'deny' : 'ask';
  if (effect !== 'none') return effect;
  for (const r of allow.near([SUBJECT])) if (r.pattern?.matchesAllow(SUBJECT)) return 'allow';
  return 'ask';
};

const facts = defaultFacts();
const call = { tool: 'bash', args: { command: COMMAND } };
const whole = (set: PolicySet) => (): string => decide(set, call, facts).effect;

async function compare(): Promise<void> {
  const rules = rulesOf(200);
  const set = policyOf(rules);
  const arms = [
    arm('matching', 'allow', match(set)),
    arm('matching again', 'allow', match(set)),
    arm('whole decision', 'allow', whole(set)),
    arm('cedar-wasm', 'allow', cedar(rules)),
    arm('casbin', 'allow', await casbin(rules)),
    arm('picomatch by tool', 'allow', picomatchByTool(rules)),
  ];
  await interleave(arms, 3, SLICE_MS);
  const rates = await interleave(arms, ROUNDS, SLICE_MS);
  print(`200 rules, ${ROUNDS} rounds of ${SLICE_MS} ms, calls a second (median):`);
  for (const [name, values] of rates) print(`  ${name.padEnd(18)} ${Math.round(median(values)).toLocaleString('en')}`);
  const same = ratio(rates, 'matching again', 'matching');
  print(`  A/A ${show(same)}${isQuiet(same) ? '' : ': too noisy, no verdict'}`);
  for (const rival of ['cedar-wasm', 'casbin', 'picomatch by tool'])
    for (const ours of ['matching', 'whole decision'])
      print(`  ${ours} / ${rival}: ${show(ratio(rates, ours, rival))}`);
}

/** The commands of the case files. */
const corpus = (): string[] =>
  ['cases.jsonl', 'more.jsonl', 'kinds.jsonl', 'attacks.jsonl'].flatMap((name) =>
    readFileSync(new URL(`../vectors/policy/${name}`, import.meta.url), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { call: { args?: { command?: unknown } } }).call.args?.command)
      .filter((command): command is string => typeof command === 'string' && command.length <= 4096),
  );

/** Each command five times, the shortest counts: what remains is the command's own cost and not that of a busy machine. */
function latencies(): void {
  const set = policyOf(rulesOf(200));
  const times = (command: string): number => {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 5; i++) {
      const start = process.hrtime.bigint();
      decide(set, { tool: 'bash', args: { command } }, facts);
      least = Math.min(least, Number(process.hrtime.bigint() - start) / 1000);
    }
    return least;
  };
  const commands = corpus();
  for (const command of commands) times(command);
  const sorted = commands.map(times).toSorted((a, b) => a - b);
  const at = (share: number): string => `${(sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(0)} µs`;
  print(`whole decision, 200 rules, ${sorted.length} commands of the case files, best of five:`);
  print(`  p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1 - 1 / sorted.length)}`);
}

async function growth(): Promise<void> {
  const counts = [10, 100, 1000, 10_000];
  const arms = counts.map((count) => arm(String(count), 'allow', whole(policyOf(rulesOf(count)))));
  await interleave(arms, 3, SLICE_MS);
  const rates = await interleave(arms, 15, SLICE_MS);
  print('cost of a whole decision by the number of rules, beside that of 10 rules:');
  for (const count of counts) print(`  ${String(count).padStart(6)} rules: ${show(ratio(rates, '10', String(count)))}`);
}

await compare();
latencies();
await growth();
