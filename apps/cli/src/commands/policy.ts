import {
  type Call,
  type Decision,
  explain,
  explainAnswer,
  factsOf,
  type PolicySet,
  runCases,
} from '@countersign/policy';
import type { Command } from 'commander';
import { wholeNumber } from '../options.ts';
import { EXIT, print, RefusedError } from '../output.ts';
import { explainSession } from './explain-session.ts';
import { addImportCommand } from './policy-import.ts';
import { readInput, readPolicyFile, readPolicySet } from './policy-input.ts';
import { addPolicyPublishCommands } from './policy-publish.ts';
import { addSimulateCommand } from './policy-simulate.ts';

function addEval(policy: Command): void {
  policy
    .command('eval')
    .description('decide the calls of a case file, one JSON line each; ends with 1 if an expectation fails')
    .requiredOption('--cases <file>', 'JSON Lines of cases')
    .action(({ cases }: { cases: string }) => {
      const { answers, ok } = runCases(readInput(cases));
      for (const { id, effect, reasons } of answers)
        process.stdout.write(`${JSON.stringify({ id, effect, reasons })}\n`);
      const right = answers.filter((answer) => answer.ok).length;
      process.stderr.write(`${right} of ${answers.length} as expected\n`);
      for (const answer of answers) if (!answer.ok) process.stderr.write(`not as expected: ${answer.id}\n`);
      process.exitCode = ok ? EXIT.ok : EXIT.refused;
    });
}

type ExplainOptions = {
  policy?: string[];
  session?: string;
  call?: string;
  tool?: string;
  value?: string;
  project?: string;
  cwd?: string;
  person?: string;
  group?: string[];
  requester: string;
  waited: string;
};

const ARGUMENT: Readonly<Record<string, string>> = {
  bash: 'command',
  background: 'command',
  web_fetch: 'url',
  browser: 'url',
  web_search: 'query',
};

function callOf({ call, tool, value }: ExplainOptions): Call {
  if (call === undefined) {
    if (tool === undefined || value === undefined)
      throw new RefusedError('want `--call` or `--tool` with `--value`', 'countersign.cli.usage', EXIT.usage);
    return { tool, args: { content: '', oldText: '', newText: '', [ARGUMENT[tool] ?? 'path']: value } };
  }
  try {
    return JSON.parse(call) as Call;
  } catch {
    throw new RefusedError('`--call` is not JSON', 'countersign.cli.usage', EXIT.usage);
  }
}

/** Whether the named person could approve; nothing when none is named. */
function answerLines(set: PolicySet, decision: Decision, options: ExplainOptions): string[] {
  const { person, group: groups = [], requester, waited } = options;
  const waitedMinutes = wholeNumber(waited, '--waited', { least: 0 });
  if (person === undefined) return [];
  const would = {
    person,
    groups,
    requester,
    waitedMinutes,
    nowMs: Date.now(),
  };
  return [explainAnswer(set, decision, would)].filter((line) => line !== '');
}

function addExplain(policy: Command): void {
  policy
    .command('explain')
    .description('show layers, deciding rules, table row and ignored widenings for one call')
    .option('--policy <files...>', 'FILE (the managed layer) or LAYER=FILE')
    .option(
      '--session <id>',
      'instead of files: everything that this session is decided on now, permission files and saved rules too',
    )
    .option('--call <json>', 'the call: {"tool":…,"args":{…}}')
    .option('--tool <name>', 'the tool, with --value')
    .option('--value <text>', 'its command, path or address')
    .option('--project <folder>', 'the project folder of the session')
    .option('--cwd <folder>', 'the working folder of the session')
    .option('--person <name>', 'say whether this person could approve now, and why not')
    .option('--group <names...>', 'groups of that person')
    .option('--requester <name>', 'the person for whom the agent acts', 'requester')
    .option('--waited <minutes>', 'how long the call has waited', '0')
    .action(async (options: ExplainOptions, command: Command) => {
      if (options.session !== undefined) return explainSession(options.session, callOf(options), command);
      if (options.policy === undefined)
        throw new RefusedError('want `--policy` or `--session`', 'countersign.cli.usage', EXIT.usage);
      const { set, security, approvalMode } = readPolicySet(options.policy);
      const { project, cwd } = options;
      const session = { ...(project ? { project } : {}), ...(cwd ? { cwd } : {}) };
      const stated = { session, security, ...(approvalMode === undefined ? {} : { approvalMode }) };
      const found = explain(set, callOf(options), factsOf(stated));
      const { decision } = found;
      const answer = answerLines(set, decision, options);
      const lines = [
        `${decision.effect}`,
        ...decision.reasons.map((reason) => `  because ${reason}`),
        ...decision.decidingRules.map((rule) => `  deciding rule ${rule}`),
        ...(decision.review === undefined ? [] : [`  review ${JSON.stringify(decision.review)}`]),
        ...found.governance.map((rule) => `  ${rule}`),
        ...answer.map((line) => `  ${line}`),
        `mode ${found.mode}: ${found.tableRow}`,
        ...found.layers.map(({ layer, rules }) => `layer ${layer}: ${rules.length} rules`),
        ...found.ignoredWidenings.map((what) => `ignored ${what}`),
      ];
      print(command, { ...found, ...(answer.length > 0 ? { answer: answer[0] } : {}) }, lines.join('\n'));
    });
}

function addTest(policy: Command): void {
  policy
    .command('test <file>')
    .description("run a policy file's own match and notMatch examples; ends with 1 at the first faulty file")
    .action((file: string, _options: object, command: Command) => {
      const { layer, lines } = readPolicyFile(file);
      const rules = [layer, layer.lockedRules, layer.defaults].flatMap((l) => [
        ...(l?.allowRules ?? []),
        ...(l?.askRules ?? []),
        ...(l?.denyRules ?? []),
      ]);
      const examples = rules.reduce((n, r) => n + (r.match?.length ?? 0) + (r.notMatch?.length ?? 0), 0);
      const untested = rules.filter((r) => r.match === undefined).length;
      const text = `${file}: ${lines.size} rules, ${examples} examples hold, ${untested} rules without \`match\``;
      print(command, { file, rules: lines.size, examples, untested }, text);
    });
}

/** `countersign policy eval | explain | test | simulate | import | publish | show`. */
export function addPolicyCommand(program: Command): void {
  const policy = program.command('policy').description('the decision engine');
  for (const add of [addEval, addExplain, addTest, addSimulateCommand, addImportCommand, addPolicyPublishCommands])
    add(policy);
}
