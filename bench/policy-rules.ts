import { type LayerSource, loadPolicySet, type PolicySet } from '../libs/policy/src/index.ts';

export interface BenchRule {
  readonly effect: 'allow' | 'ask' | 'deny';
  readonly tool: 'bash' | 'read' | 'write' | 'web_fetch';
  readonly pattern: string;
}

const PROGRAMS = ['npm', 'git', 'cargo', 'make', 'docker', 'kubectl', 'terraform', 'go', 'pytest', 'gh'];
const EFFECTS = ['allow', 'allow', 'allow', 'ask', 'deny'] as const;

function ruleAt(i: number): BenchRule {
  const effect = EFFECTS[i % EFFECTS.length] ?? 'ask';
  const program = PROGRAMS[i % PROGRAMS.length] ?? 'npm';
  switch (i % 10) {
    case 6:
      return { effect, tool: 'read', pattern: `services/svc${i}/config/**` };
    case 7:
      return { effect, tool: 'write', pattern: `**/generated${i}/*` };
    case 8:
      return { effect, tool: 'write', pattern: `*.key${i}` };
    case 9:
      return { effect, tool: 'web_fetch', pattern: `*.team${i}.example` };
    default:
      return { effect, tool: 'bash', pattern: `${program} job${i} *` };
  }
}

/** Rules as organisations write them: six of ten about commands, three about files, one about hosts. */
export const rulesOf = (count: number): BenchRule[] => [
  { effect: 'allow', tool: 'bash', pattern: 'npm run build *' },
  { effect: 'allow', tool: 'bash', pattern: 'tail *' },
  ...Array.from({ length: count - 2 }, (_, i) => ruleAt(i)),
];

/** The same rules in our engine. */
export function policyOf(rules: readonly BenchRule[]): PolicySet {
  const list = (effect: BenchRule['effect']) =>
    rules.filter((r) => r.effect === effect).map(({ tool, pattern }) => ({ toolName: tool, pattern }));
  const user: LayerSource = { allowRules: list('allow'), askRules: list('ask'), denyRules: list('deny') };
  const loaded = loadPolicySet({ user });
  if (!loaded.ok) throw new Error(loaded.error[0]?.message);
  return loaded.value;
}

/** The simple command that every engine is asked about. */
export const SUBJECT = 'npm run build --workspace web';
/** The call that the whole decision is asked about. */
export const COMMAND = `${SUBJECT} && tail -40 build.log`;
