/** The part of JSON Schema that policy files use. */
export interface Schema {
  readonly type?: 'object' | 'array' | 'string' | 'boolean' | 'integer' | 'number';
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false | Schema;
  readonly items?: Schema;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxItems?: number;
  readonly anyOf?: readonly Schema[];
  readonly $ref?: string;
}

const text = (description: string, maxLength = 4096): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength,
  description,
});
const flag = (description: string): Schema => ({ type: 'boolean', description });
const list = (items: Schema, description: string): Schema => ({ type: 'array', items, maxItems: 10000, description });
const object = (properties: Record<string, Schema>, required: string[] = []): Schema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
const ref = (name: string): Schema => ({ $ref: `#/$defs/${name}` });
const mode: Schema = {
  type: 'string',
  enum: ['strict', 'dev', 'networked', 'yolo'],
  description: 'what needs asking when no rule matches',
};
const people: Schema = {
  type: 'integer',
  minimum: 1,
  maximum: 20,
  description: 'how many different people must approve',
};

const minutes = (description: string): Schema => ({
  type: 'integer',
  minimum: 1,
  maximum: 10_080,
  description: `${description}, in minutes`,
});

const milliseconds = (description: string): Schema => ({
  type: 'integer',
  minimum: 1,
  maximum: 86_400_000,
  description: `${description}, in milliseconds`,
});

const toolName = (description: string): Schema => ({
  description,
  anyOf: [
    text('a name', 256),
    object({ server: text('the MCP server', 128), tool: text('its tool', 128) }, ['server', 'tool']),
  ],
});

const examples = (description: string): Schema =>
  list(
    {
      anyOf: [
        text('the command, path or address of a call', 65536),
        object({ tool: toolName('the tool'), args: { type: 'object', description: "the call's arguments" } }),
      ],
    },
    description,
  );

const rule = object(
  {
    id: text('a stable name, shown in reasons and grants', 128),
    toolName: toolName('a tool, `*`, or a name that ends in `*`; or an MCP tool by its raw names'),
    pattern: text('what it matches; absent means every call of the tool'),
    reason: text('shown to the agent and the approver'),
    reviewer: text('`human`, `guardian`, or the name of a person or group', 256),
    queue: text('the queue that answers the ask', 128),
    approvals: people,
    match: examples('calls that the rule must match; checked at load'),
    notMatch: examples('calls that the rule must not match; checked at load'),
  },
  ['toolName'],
);

const lists = {
  allowRules: list(ref('rule'), 'calls that need no answer'),
  askRules: list(ref('rule'), 'calls that a reviewer answers'),
  denyRules: list(ref('rule'), 'calls that are refused'),
};

const security = object({
  permission_mode: mode,
  auto_allow_bash_if_sandboxed: flag('modes dev and networked run sandboxed commands without asking'),
  dangerous_command_guard: flag('risky command forms are denied'),
  block_private_network: flag('private and reserved addresses are denied'),
  identity_judge_llm_enabled: flag('a model compares who acts with who was enrolled'),
  on_failed_review: {
    type: 'string',
    enum: ['deny', 'ask_human'],
    description: 'what a review by a model comes to that failed',
  },
  guardian_shadow: flag('a model gives an opinion on calls that people decide'),
  guardian_min_agreement: {
    type: 'number',
    minimum: 0,
    maximum: 1,
    description: 'share of agreement with people below which a model is proposed to advise only',
  },
  guardian_min_compared: {
    type: 'integer',
    minimum: 1,
    maximum: 100,
    description: 'comparisons before that is judged',
  },
  max_command_ms: milliseconds('longest time of a command'),
  max_background_ms: milliseconds('longest time of a command in the background'),
  hardened_mode: flag('every guard on; a one-way lock'),
  env_allowlist: list(text('a name', 128), 'environment names that child processes get'),
});

const layer = {
  $schema: text('the address of this schema'),
  description: text('what the file is for'),
  mode,
  approvalMode: {
    type: 'string',
    enum: ['manual', 'auto', 'full_access'],
    description: 'who answers an ask',
  },
  security,
  allowedHosts: list(
    text('a host, `*.host`, with an optional port and path', 1000),
    'hosts that mode networked reaches',
  ),
  sandboxBackend: {
    type: 'string',
    enum: ['app-guard', 'bubblewrap', 'seatbelt', 'auto'],
    description: 'how execution is bounded',
  },
  allowBackendFallback: flag('whether another backend may stand in'),
  ...lists,
} satisfies Record<string, Schema>;

const managed = {
  ceilings: object({
    mode,
    fullAccess: flag('whether full access may be asked for'),
    eternal: flag('whether sessions may run unattended'),
    backendFallback: flag('whether another backend may stand in'),
    appGuard: flag('whether the app-guard backend may be used'),
  }),
  forbiddenHosts: list(text('a host', 1000), 'hosts that no layer may add'),
  harmlessNames: list(text('a name', 128), 'more environment names that an allow rule survives'),
  lockedRules: object(lists),
  defaults: object(layer),
  queues: {
    type: 'object',
    description: 'the queues that answer asks, by name',
    additionalProperties: object({
      description: text('what the queue is for'),
      approvals: people,
      quorum: list(
        object({ group: text('a group of the directory', 128), count: people }, ['group', 'count']),
        'so many different people of each of these groups',
      ),
      windows: list(
        object(
          {
            timeZone: text('an IANA time zone', 64),
            from: text('beginning as HH:MM', 5),
            to: text('end as HH:MM; before the beginning: on the next day', 5),
            days: list(
              { type: 'string', enum: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] },
              'days it begins on',
            ),
          },
          ['timeZone', 'from', 'to'],
        ),
        'hours in which approvals are given; denials always are',
      ),
      escalation: object(
        {
          afterMinutes: minutes('waiting time'),
          approvers: list(text('a group', 128), 'groups that may then decide too'),
        },
        ['afterMinutes', 'approvers'],
      ),
      slaMinutes: minutes('time within which an answer is due'),
      delegation: flag('approvers may let others decide for them'),
      breakGlass: object(
        {
          groups: list(text('a group', 128), 'groups whose people may approve alone in an emergency'),
          reviewHours: {
            type: 'integer',
            minimum: 1,
            maximum: 720,
            description: 'hours until somebody else has reviewed it',
          },
        },
        ['groups', 'reviewHours'],
      ),
      passkey: flag('each approval is signed with a passkey; no grants are given'),
      approvers: list(text('a group of the directory', 128), 'groups whose people may decide'),
      readers: list(text('a group of the directory', 128), 'groups whose people may read'),
      separationOfDuties: flag('the owner of the session may not approve either'),
    }),
  },
} satisfies Record<string, Schema>;

/** The JSON Schema (draft 2020-12) of a policy file; `deploy/policies/policy.schema.json` is its text. */
export const POLICY_SCHEMA: Schema & { readonly $defs: Readonly<Record<string, Schema>> } = {
  ...{ $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'Countersign policy file' },
  ...object({ ...layer, ...managed }),
  $defs: { rule },
};
